#include "operator/kubelet/pod_feed.h"

#include <apps/operator/api/resource.h>
#include <apps/operator/job/json.h>

#include <map>
#include <utility>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kWatch = 60s;
constexpr auto kPause = 200ms;

}  // namespace

PodFeed::PodFeed(const kube::Access& access, std::string space)
    : client_(access), space_(std::move(space)), thread_([this](std::stop_token stop) { run(std::move(stop)); }) {}

std::vector<PodFeed::News> PodFeed::take(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return !news_.empty(); });
  return std::exchange(news_, {});
}

void PodFeed::put(bool gone, json pod) {
  const std::lock_guard lock(mutex_);
  news_.push_back({gone, std::move(pod)});
  changed_.notify_all();
}

void PodFeed::run(std::stop_token stop) {
  const std::stop_callback cancel(stop, [this] { client_.cancel(); });
  const auto path = kube::path_of(kube::pods(), space_);
  std::map<std::string, json> known;  // by uid
  std::string version;
  while (!stop.stop_requested()) {
    if (version.empty()) {
      auto listed = client_.list(path);
      if (!listed.answer.ok()) {
        std::this_thread::sleep_for(kPause);  // the server is away
        continue;
      }
      auto gone = std::exchange(known, {});
      for (json& pod : listed.items) {
        gone.erase(kube::uid_of(pod));
        known[kube::uid_of(pod)] = pod;
        put(false, std::move(pod));
      }
      for (auto& [uid, pod] : gone) put(true, std::move(pod));
      version = listed.version;
    }
    const auto end = client_.watch(path, "", version, kWatch, [&](const kube::WatchEvent& event) {
      if (event.change == kube::Change::bookmark) return;
      const bool is_gone = event.change == kube::Change::deleted;
      if (is_gone) known.erase(kube::uid_of(event.object));
      if (!is_gone) known[kube::uid_of(event.object)] = event.object;
      put(is_gone, event.object);
    });
    version = end.version;
    if (!end.trouble.empty() || end.why) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::test
