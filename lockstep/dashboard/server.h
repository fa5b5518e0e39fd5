// The server of a job's live page: a port and a thread of its own, for browsers with the token of this job.
#pragma once

#include <lockstep/dashboard/job_facts.h>
#include <lockstep/dashboard/job_view.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace lockstep::dashboard {

struct PageServerOptions {
  std::string host = "127.0.0.1";  ///< a name or an address of this machine, to listen on
  std::uint16_t port = 0;          ///< 0: a free one
  /// Receives the requests to kill ranks, on the server's thread; must not block. Without it pages only show the job.
  std::function<void(const KillRequest&)> kill{};
};

/// What is left when the job has ended.
struct EndedPage {
  std::string html;      ///< a file that needs no server
  std::string work_dir;  ///< the one that the ranks have reported; empty: none
};

/// Thread-safe, except the destructor. No call waits for a browser.
class PageServer {
 public:
  /// Opens the port, and serves it on a thread. The job begins now. Error(io) when the port cannot be opened.
  PageServer(PageServerOptions options, JobDescription job);
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;
  /// Closes all connections.
  ~PageServer();

  /// "http://127.0.0.1:4711/?token=...": whoever has it sees the job.
  const std::string& address() const;

  /// The processes of the job now; to be called about once a second, and when one ends. The server's thread reads their
  /// status files, and updates the pages.
  void report(JobReport report);

  void answer(const KillRequest& request, bool ok, const std::string& text);

  /// The job has ended: pages get the last update, and the server closes, within about half a second. To be called at
  /// most once, and no other call after it.
  EndedPage end(JobEnd end);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::dashboard
