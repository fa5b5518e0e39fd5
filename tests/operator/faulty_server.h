// A server before the real API server, over plain HTTP, that passes requests on and makes what faults a test wants.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "support/raw_server.h"

namespace lockstep::net {
class HttpClient;
}

namespace lockstep::test {

class FaultyServer {
 public:
  struct Request {
    std::string method;
    std::string target;
    std::string type;
    std::string body;
    int number = 0;  ///< of requests that are no watches, from 1
    bool is_watch() const { return target.find("watch=1") != std::string::npos; }
    bool is_write() const { return method != "GET"; }
    bool about_leases() const { return target.find("/leases") != std::string::npos; }
  };

  struct Fault {
    unsigned status = 0;         ///< not 0: answer this, and do nothing
    bool lose_request = false;   ///< close the connection instead of passing it on
    bool lose_answer = false;    ///< pass it on, and close the connection instead of answering
    bool repeat_events = false;  ///< of a watch: each line twice
    int cut_after = -1;          ///< of a watch: close after so many bytes
    std::function<void()> before{};
    std::function<void()> after{};
  };

  /// `choose` is called for each request, from several threads.
  explicit FaultyServer(std::function<Fault(const Request&)> choose);
  ~FaultyServer();

  /// A kubeconfig that leads here.
  std::filesystem::path kubeconfig() const;

 private:
  void serve(int connection);
  bool pass_on(int connection, const Request& request);

  std::function<Fault(const Request&)> choose_;
  std::atomic<int> requests_{0};
  std::mutex mutex_;
  bool ending_ = false;
  std::set<net::HttpClient*> clients_;  ///< of requests that are passed on now
  std::filesystem::path file_;
  RawServer server_;  // last: its threads use the rest
};

}  // namespace lockstep::test
