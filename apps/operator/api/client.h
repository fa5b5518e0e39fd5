// A client of an API server: objects are JSON, outcomes are values; and the rate limit that clients share.
#pragma once

#include <apps/operator/api/access.h>
#include <apps/operator/api/answer.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

/// A rate limit for requests, shared by threads: a burst size and a number of requests per second.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst), left_(burst) {}

  /// Takes a token for one request; returns how long the caller must wait before it sends the request.
  Clock::duration take(Clock::time_point now = Clock::now());

 private:
  std::mutex mutex_;
  double per_second_;
  double burst_;
  double left_;  ///< tokens; below 0: tokens that are taken and not yet due
  Clock::time_point last_ = Clock::now();
};

/// A snapshot of all objects of a kind, and its version.
struct Listed {
  Answer answer;  ///< of the page that failed, or of the last one
  std::vector<nlohmann::json> items{};
  std::string version{};
};

/// How a watch ended.
struct WatchEnd {
  std::string version;          ///< continue from here; empty: list again
  std::optional<Answer> why{};  ///< nullopt: the server ended the watch normally, or the connection was lost
  std::string trouble{};        ///< the error of the connection, if any
};

/// What a deletion requires, and how it is done.
struct Deletion {
  std::string uid{};  ///< only the object with this one; empty: any
  std::optional<int> grace_seconds{};
  bool in_background = true;  ///< dependents are deleted after it
};

/// Called for each request, with its outcome.
using CountRequest = std::function<void(std::string_view method, Outcome outcome)>;

/// Blocking; a request that gets no response within 30 s is `lost`. Each method's path is that of path_of(). Not
/// thread-safe, but for cancel(). `limit` (null: none) is shared by clients.
class ApiClient {
 public:
  explicit ApiClient(const Access& access, std::shared_ptr<RateLimit> limit = nullptr, CountRequest count = {});
  ApiClient(ApiClient&&) noexcept;
  ApiClient& operator=(ApiClient&&) noexcept;
  ~ApiClient();

  Answer get(const std::string& path);
  Answer create(const std::string& path, const nlohmann::json& object);
  Answer replace(const std::string& path, const nlohmann::json& object);
  /// RFC 7386, or another kind of patch by its content type.
  Answer patch(const std::string& path, const nlohmann::json& patch,
               const std::string& content_type = "application/merge-patch+json");
  Answer remove(const std::string& path, const Deletion& deletion);

  /// All pages; starts again if the first pages have expired meanwhile.
  Listed list(const std::string& path, const std::string& label_selector = "", int page = 500);

  /// Calls `take` for each event after `version`, bookmarks included, until the server ends the watch after about
  /// `time`, or the connection ends.
  WatchEnd watch(const std::string& path, const std::string& label_selector, std::string version,
                 std::chrono::seconds time, const std::function<void(const WatchEvent&)>& take);

  /// The timeout of a request; 30 s by default.
  void set_limit(std::chrono::milliseconds limit);

  /// From any thread: the current request and all later ones are `lost`.
  void cancel() noexcept;

  /// "10.0.0.1:443".
  std::string server() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::kube
