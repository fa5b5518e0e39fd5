// A job and its Pods in a world that carries decisions out at once, for tests of decisions; and the jobs in it.
#pragma once

#include <apps/operator/decide/decide.h>
#include <apps/operator/job/json.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "operator/job_text.h"

namespace lockstep::kube {

inline const Time kNow = *parse_time("2026-03-01T12:00:00Z");

/// A job, its Pods, and a world that carries decisions out at once.
class Scene {
 public:
  explicit Scene(const std::string& spec) { seen.job = test::job_of(spec); }

  Decision decide_now() {
    Decision decision = decide(seen, now);
    if (decision.status) seen.job.status = *decision.status;
    for (const EventNote& note : decision.events) events.push_back(note.reason);
    return decision;
  }

  /// Decides, and does all of it; Pods that are deleted are gone, or end slowly.
  Decision step(bool slowly = false) {
    Decision decision = decide_now();
    for (const Action& action : decision.actions) act(action, slowly);
    return decision;
  }

  PodView& pod(const std::string& name) {
    for (PodView& each : seen.pods) {
      if (each.name == name) return each;
    }
    throw std::runtime_error("there is no Pod " + name);
  }
  void run_all() {
    for (PodView& each : seen.pods) {
      if (each.phase == PodPhase::pending) each.phase = PodPhase::running;
    }
  }
  void end(const std::string& name, std::optional<int> code, const std::string& kind = "") {
    PodView& ended = pod(name);
    ended.phase = code == 0 ? PodPhase::succeeded : PodPhase::failed;
    ended.exit_code = code;
    ended.kind = kind;
    ended.ended = std::chrono::floor<std::chrono::seconds>(now);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const PodView& each : seen.pods) all.push_back(each.name);
    return all;
  }
  const Status& status() const { return seen.job.status; }
  void start() {
    step();
    run_all();
    step();
    ASSERT_EQ(status().phase, "Running");
  }

  Observed seen;
  Time now = kNow;
  std::vector<std::string> events;

 private:
  void act(const Action& action, bool slowly) {
    if (const auto* made = std::get_if<CreateObject>(&action)) {
      auto object = made->object;
      object["metadata"]["uid"] = fmt::format("uid-{}", ++uids_);
      if (*made->resource == pods()) seen.pods.push_back(*view_pod(object, seen.job.uid));
      if (*made->resource == services()) seen.service = Part{"s", {}};
      if (*made->resource == config_maps()) seen.config_map = Part{"c", object["data"]};
      if (made->resource->plural == "podgroups") seen.pod_group = Part{"g", nlohmann::json::object()};
    } else if (const auto* list = std::get_if<SetFinalizers>(&action)) {
      seen.job.finalizers = list->finalizers;
    } else if (std::get_if<CreateCertificates>(&action) != nullptr) {
      seen.secret = Part{"t", {}};
    } else if (const auto* changed = std::get_if<ReplaceObject>(&action)) {
      seen.config_map = Part{"c", changed->object["data"]};
    } else if (const auto* gone = std::get_if<DeleteObject>(&action)) {
      if (*gone->resource == pods() && slowly) pod(gone->name).deleting = true;
      if (*gone->resource == pods() && !slowly)
        std::erase_if(seen.pods, [&](const PodView& p) { return p.uid == gone->uid; });
      if (gone->resource->plural == "podgroups") seen.pod_group.reset();
    }
  }

  int uids_ = 0;
};

inline constexpr const char* kTwo = "{replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";
inline constexpr const char* kAllWorkers =
    "{successPolicy: AllWorkers, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";
inline constexpr const char* kScheduler = "{mode: Scheduler, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";
inline constexpr const char* kRecovery =
    "{mode: Scheduler, recovery: {path: /state}, replicaSpecs: {Worker: {replicas: 2, template: WORKER}}}";

/// What a decision does, one text for each action.
inline std::vector<std::string> described(const Decision& decision) {
  std::vector<std::string> texts;
  for (const Action& action : decision.actions) {
    if (const auto* made = std::get_if<CreateObject>(&action)) {
      texts.push_back(fmt::format("create {} {}", made->resource->kind, name_of(made->object)));
    } else if (const auto* secret = std::get_if<CreateCertificates>(&action)) {
      texts.push_back("create certificates " + secret->name);
    } else if (const auto* gone = std::get_if<DeleteObject>(&action)) {
      texts.push_back(fmt::format("delete {} {}", gone->resource->kind, gone->name));
    } else if (const auto* list = std::get_if<SetFinalizers>(&action)) {
      texts.push_back(fmt::format("finalizers [{}]", fmt::join(list->finalizers, ", ")));
    } else if (const auto* state = std::get_if<ClearState>(&action)) {
      texts.push_back("clear " + state->url);
    } else {
      texts.push_back("replace " + name_of(std::get<ReplaceObject>(action).object));
    }
  }
  return texts;
}

}  // namespace lockstep::kube
