// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

import io.modelcontextprotocol.client.McpClient;
import io.modelcontextprotocol.client.McpSyncClient;
import io.modelcontextprotocol.client.transport.HttpClientStreamableHttpTransport;
import io.modelcontextprotocol.client.transport.ServerParameters;
import io.modelcontextprotocol.client.transport.StdioClientTransport;
import io.modelcontextprotocol.spec.McpClientTransport;
import io.modelcontextprotocol.spec.McpSchema;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;

/** One session of the Java SDK, and how each feature is tried in it. */
final class Session {
  /** What this driver tries, in the order of the table. */
  static final List<String> FEATURES =
      List.of(
          "tools", "resources", "templates", "prompts", "call", "progress", "complete", "read", "get", "elicit",
          "sample", "roots", "several", "kinds", "structured", "caps", "instruct", "changes");

  private static final long POLL_MS = 50;

  /**
   * How often progress is tried, and how long the steps of a call that has ended may take. Steps may
   * be missing by chance: of those that a client has not read, the newest remains.
   */
  private static final int PROGRESS_ATTEMPTS = 5;

  private static final Duration STEPS_PATIENCE = Duration.ofSeconds(2);

  private final Probe job;
  private final AtomicInteger steps = new AtomicInteger();
  private final Map<String, AtomicInteger> changes =
      Map.of("tools", new AtomicInteger(), "resources", new AtomicInteger());
  private McpSyncClient client;

  Session(Probe job) {
    this.job = job;
  }

  void connect() throws Exception {
    Probe answers = job.object("answers");
    Duration limit = Duration.ofSeconds(Main.LIMIT_SECONDS);
    client =
        McpClient.sync(transport(job.object("target")))
            .requestTimeout(limit)
            .initializationTimeout(limit)
            .clientInfo(McpSchema.Implementation.builder("java-sdk", "1.0.0").build())
            .capabilities(
                McpSchema.ClientCapabilities.builder().roots(true).sampling().elicitation(true, false).build())
            .roots(new McpSchema.Root(answers.text("root"), "root"))
            .elicitation(
                asked ->
                    McpSchema.ElicitResult.builder(McpSchema.ElicitResult.Action.ACCEPT)
                        .content(Map.of("name", answers.text("name")))
                        .build())
            .sampling(
                asked ->
                    McpSchema.CreateMessageResult.builder(McpSchema.Role.ASSISTANT, answers.text("sample"), "none")
                        .build())
            .progressConsumer(step -> steps.incrementAndGet())
            .toolsChangeConsumer(tools -> changes.get("tools").incrementAndGet())
            .resourcesChangeConsumer(resources -> changes.get("resources").incrementAndGet())
            .build();
    String version = client.initialize().protocolVersion();
    if (!version.equals(job.text("version"))) {
      throw new IllegalStateException("negotiated " + version + ", want " + job.text("version"));
    }
  }

  private static McpClientTransport transport(Probe target) {
    if (!target.has("url")) {
      ServerParameters command =
          ServerParameters.builder(target.text("command")).args(target.strings("args")).build();
      StdioClientTransport transport = new StdioClientTransport(command, Main.JSON);
      transport.setStdErrorHandler(line -> {});
      return transport;
    }
    java.net.URI url = java.net.URI.create(target.text("url"));
    String base = url.getScheme() + "://" + url.getAuthority();
    HttpClientStreamableHttpTransport.Builder builder =
        HttpClientStreamableHttpTransport.builder(base).endpoint(url.getPath()).openConnectionOnStartup(true);
    if (target.has("token")) {
      String authorization = "Bearer " + target.text("token");
      builder.httpRequestCustomizer(
          (request, method, uri, body, context) -> request.header("Authorization", authorization));
    }
    return builder.build();
  }

  void close() {
    if (!client.closeGracefully()) {
      throw new IllegalStateException("the session did not close");
    }
  }

  void tryFeature(String feature, Probe server) throws Exception {
    switch (feature) {
      case "tools", "resources", "templates", "prompts" -> includesAll(listed(feature), server.strings(feature));
      case "progress" -> progress(server.object(feature));
      case "complete" -> complete(server.list(feature));
      case "read" -> read(server.list(feature));
      case "get" -> get(server.object(feature));
      case "kinds" -> includes(kinds(server.object(feature)), server.object(feature).text("want"));
      case "structured" -> structured(server.object(feature));
      case "caps" -> caps(server.strings(feature));
      case "instruct" -> includes(String.valueOf(client.getServerInstructions()), server.text(feature));
      case "changes" -> changes(server.object(feature));
      default -> call(server.object(feature));
    }
  }

  private static void includes(String got, String want) {
    if (!got.contains(want)) {
      throw new IllegalStateException("got " + got + ", want " + want + " in it");
    }
  }

  private static void includesAll(List<String> got, List<String> want) {
    for (String item : want) {
      if (!got.contains(item)) {
        throw new IllegalStateException(item + " is not in " + got);
      }
    }
  }

  /** Returns the whole list of a kind: the SDK follows the cursors. */
  private List<String> listed(String kind) {
    return switch (kind) {
      case "tools" -> client.listTools().tools().stream().map(McpSchema.Tool::name).toList();
      case "resources" -> client.listResources().resources().stream().map(McpSchema.Resource::uri).toList();
      case "templates" ->
          client.listResourceTemplates().resourceTemplates().stream()
              .map(McpSchema.ResourceTemplate::uriTemplate)
              .toList();
      default -> client.listPrompts().prompts().stream().map(McpSchema.Prompt::name).toList();
    };
  }

  private McpSchema.CallToolResult callTool(Probe want, Object token) {
    McpSchema.CallToolRequest.Builder request =
        McpSchema.CallToolRequest.builder(want.text("name")).arguments(want.map("arguments"));
    if (token != null) {
      request.progressToken(token);
    }
    McpSchema.CallToolResult result = client.callTool(request.build());
    if (Boolean.TRUE.equals(result.isError())) {
      throw new IllegalStateException("tool error: " + result.content());
    }
    return result;
  }

  private static String textOf(List<McpSchema.Content> content) {
    return content.stream()
        .filter(McpSchema.TextContent.class::isInstance)
        .map(part -> ((McpSchema.TextContent) part).text())
        .collect(Collectors.joining("\n"));
  }

  private void call(Probe want) throws InterruptedException {
    while (true) {
      String got = textOf(callTool(want, null).content());
      if (got.contains(want.text("want")) || !want.is("eventually")) {
        includes(got, want.text("want"));
        return;
      }
      Thread.sleep(POLL_MS);
    }
  }

  private String kinds(Probe want) {
    return callTool(want, null).content().stream().map(McpSchema.Content::type).collect(Collectors.joining(" "));
  }

  private void structured(Probe want) throws java.io.IOException {
    includes(Main.JSON.writeValueAsString(callTool(want, null).structuredContent()), want.text("want"));
  }

  /** Wants every step of a call that has a token. */
  private void progress(Probe want) throws InterruptedException {
    for (int attempt = 0; attempt < PROGRESS_ATTEMPTS; attempt++) {
      int before = steps.get();
      String got = textOf(callTool(want, "progress of " + want.text("name")).content());
      includes(got, want.text("want"));
      long end = System.nanoTime() + STEPS_PATIENCE.toNanos();
      while (System.nanoTime() - end < 0) {
        if (steps.get() >= before + want.number("steps")) {
          return;
        }
        Thread.sleep(POLL_MS);
      }
    }
    throw new IllegalStateException("steps are missing in each of " + PROGRESS_ATTEMPTS + " calls");
  }

  private void complete(List<Probe> all) {
    for (Probe want : all) {
      Probe ref = want.object("ref");
      Probe argument = want.object("argument");
      McpSchema.CompleteReference reference =
          ref.has("uri")
              ? new McpSchema.ResourceReference(ref.text("uri"))
              : new McpSchema.PromptReference(ref.text("name"));
      var completed =
          client.completeCompletion(
              McpSchema.CompleteRequest.builder(
                      reference,
                      new McpSchema.CompleteRequest.CompleteArgument(argument.text("name"), argument.text("value")))
                  .build());
      includesAll(completed.completion().values(), List.of(want.text("value")));
    }
  }

  private void read(List<Probe> all) {
    for (Probe want : all) {
      var contents = client.readResource(McpSchema.ReadResourceRequest.builder(want.text("uri")).build()).contents();
      String got =
          contents.stream()
              .filter(McpSchema.TextResourceContents.class::isInstance)
              .map(part -> ((McpSchema.TextResourceContents) part).text())
              .collect(Collectors.joining("\n"));
      includes(got, want.text("text"));
    }
  }

  private void get(Probe want) {
    var request = McpSchema.GetPromptRequest.builder(want.text("name")).arguments(want.map("arguments")).build();
    var messages = client.getPrompt(request).messages();
    includes(textOf(messages.stream().map(McpSchema.PromptMessage::content).toList()), want.text("want"));
  }

  @SuppressWarnings("unchecked")
  private void caps(List<String> want) {
    Map<String, Object> declared = Main.JSON.convertValue(client.getServerCapabilities(), Map.class);
    Set<String> names = declared.keySet();
    includesAll(names.stream().filter(name -> declared.get(name) != null).toList(), want);
  }

  /**
   * Wants a notice for each change, and the change in the list that is fetched after a notice. Other
   * clients of the same server cause notices, too.
   */
  private void changes(Probe want) throws InterruptedException {
    String kind = want.text("kind");
    for (String name : List.of("add", "remove")) {
      if (!want.has(name)) {
        continue;
      }
      AtomicInteger notices = changes.get(kind);
      int seen = notices.get();
      call(want.object(name));
      do {
        while (notices.get() <= seen) {
          Thread.sleep(POLL_MS);
        }
        seen = notices.get();
      } while (listed(kind).contains(want.text("item")) != name.equals("add"));
      if (name.equals("add") && want.has("use")) {
        call(want.object("use"));
      }
    }
  }
}
