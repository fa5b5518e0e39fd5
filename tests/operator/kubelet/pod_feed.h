// Pods as the API server tells of them: a list, then a watch, in a thread of its own.
#pragma once

#include <apps/operator/api/client.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {

class PodFeed {
 public:
  /// A Pod as it is now; `gone`: it is no more.
  struct News {
    bool gone = false;
    nlohmann::json pod;
  };

  PodFeed(const kube::Access& access, std::string space);

  /// What has changed since the last call; waits for it at most `limit`.
  std::vector<News> take(std::chrono::milliseconds limit);

 private:
  void run(std::stop_token stop);
  void put(bool gone, nlohmann::json pod);

  kube::ApiClient client_;
  std::string space_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<News> news_;
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace lockstep::test
