// A writer of Kubernetes Events, named by a hash of their content; repeated ones are counted in place.
#include <apps/operator/controller/event_recorder.h>
#include <lockstep/base/log.h>
#include <lockstep/base/sha256.h>

#include <fmt/format.h>

namespace lockstep::kube {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRemembered = 5000;
constexpr std::size_t kLongestEventMessage = 1024;  // the API server's limit
constexpr std::size_t kLongestName = 200;

}  // namespace

void EventRecorder::record(ApiClient& client, const Job& job, const EventNote& note, Time now) {
  Sha256 hash;
  hash.update(fmt::format("{}\n{}\n{}\n{}", identity_, job.uid, note.reason, note.message));
  const auto name = fmt::format("{}.{}", job.name.substr(0, kLongestName), hash.hex().substr(0, 16));
  const auto time = time_text(std::chrono::floor<std::chrono::seconds>(now));
  if (counts_.size() > kMostRemembered) counts_.clear();
  int& count = counts_[name];
  Answer answer;
  if (++count > 1) {
    answer = client.patch(path_of(events(), job.space, name), {{"count", count}, {"lastTimestamp", time}});
    if (answer.ok()) return;
    count = 1;  // the API server deletes events after an hour
  }
  const json event = {{"apiVersion", "v1"},
                      {"kind", "Event"},
                      {"metadata", {{"name", name}, {"namespace", job.space}}},
                      {"involvedObject",
                       {{"apiVersion", lockstep_jobs().api_version()},
                        {"kind", lockstep_jobs().kind},
                        {"name", job.name},
                        {"namespace", job.space},
                        {"uid", job.uid},
                        {"resourceVersion", job.version}}},
                      {"reason", note.reason},
                      {"message", note.message.substr(0, kLongestEventMessage)},
                      {"type", note.warning ? "Warning" : "Normal"},
                      {"source", {{"component", "lockstep-operator"}}},
                      {"firstTimestamp", time},
                      {"lastTimestamp", time},
                      {"count", 1}};
  answer = client.create(path_of(events(), job.space), event);
  if (!answer.ok() && answer.outcome != Outcome::exists) {
    log_debug("no event for {}: {}", job.key(), answer.text());
  }
}

}  // namespace lockstep::kube
