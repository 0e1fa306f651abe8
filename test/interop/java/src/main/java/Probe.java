// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** A JSON object that describes a test. Missing members are empty. */
record Probe(Map<String, Object> members) {
  @SuppressWarnings("unchecked")
  Probe(Object json) {
    this(json == null ? Map.of() : (Map<String, Object>) json);
  }

  boolean has(String name) {
    return members.get(name) != null;
  }

  String text(String name) {
    return has(name) ? members.get(name).toString() : "";
  }

  int number(String name) {
    return has(name) ? ((Number) members.get(name)).intValue() : 0;
  }

  boolean is(String name) {
    return Boolean.TRUE.equals(members.get(name));
  }

  Probe object(String name) {
    return new Probe(members.get(name));
  }

  List<Probe> list(String name) {
    return ((List<?>) members.getOrDefault(name, List.of())).stream().map(Probe::new).collect(Collectors.toList());
  }

  List<String> strings(String name) {
    return ((List<?>) members.getOrDefault(name, List.of())).stream().map(Object::toString).collect(Collectors.toList());
  }

  @SuppressWarnings("unchecked")
  Map<String, Object> map(String name) {
    return has(name) ? (Map<String, Object>) members.get(name) : Map.of();
  }
}
