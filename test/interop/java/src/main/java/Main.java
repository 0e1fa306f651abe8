// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.json.McpJsonMapper;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The client of the Java SDK, for the interop tests. It reads a JSON array of jobs from standard
 * input and prints one JSON line per server and feature, and one when a session has closed.
 */
public final class Main {
  static final McpJsonMapper JSON = McpJsonDefaults.getMapper();

  /** Limits of a feature, and of one that is known not to work. */
  static final long LIMIT_SECONDS = 120;

  private static final long BRIEF_SECONDS = 5;
  private static final int SESSIONS = 4;

  /** A feature, which throws what went wrong. */
  interface Feature {
    void run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    List<?> jobs = JSON.readValue(System.in.readAllBytes(), List.class);
    ExecutorService workers = Executors.newFixedThreadPool(SESSIONS);
    for (Object job : jobs) {
      workers.submit(() -> run(new Probe(job)));
    }
    workers.shutdown();
    workers.awaitTermination(1, TimeUnit.HOURS);
    // Threads of the SDK would keep the process.
    System.exit(0);
  }

  private static void run(Probe job) {
    Session session = new Session(job);
    if (!within(job, "", "connect", LIMIT_SECONDS, session::connect)) {
      return;
    }
    for (Probe server : job.list("servers")) {
      for (String feature : Session.FEATURES) {
        if (server.has(feature)) {
          long limit = server.strings("brief").contains(feature) ? BRIEF_SECONDS : LIMIT_SECONDS;
          within(job, server.text("name"), feature, limit, () -> session.tryFeature(feature, server));
        }
      }
    }
    within(job, "", "close", LIMIT_SECONDS, session::close);
  }

  /** Runs one feature within its limit and prints what came of it. */
  private static boolean within(Probe job, String server, String feature, long limit, Feature run) {
    long started = System.nanoTime();
    String error = "";
    CompletableFuture<Void> done =
        CompletableFuture.runAsync(
            () -> {
              try {
                run.run();
              } catch (Exception e) {
                throw new IllegalStateException(String.valueOf(e.getMessage()), e);
              }
            },
            task -> new Thread(task).start());
    try {
      done.get(limit, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      error = "no result after " + limit + " s";
    } catch (ExecutionException | InterruptedException e) {
      error = String.valueOf(e.getCause() == null ? e : e.getCause().getMessage());
    }
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("job", job.number("id"));
    line.put("server", server);
    line.put("feature", feature);
    line.put("ok", error.isEmpty());
    line.put("error", error);
    line.put("ms", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started));
    print(line);
    return error.isEmpty();
  }

  private static synchronized void print(Map<String, Object> line) {
    try {
      System.out.println(JSON.writeValueAsString(line));
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }
}
