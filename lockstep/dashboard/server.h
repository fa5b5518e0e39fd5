// The server of a job's live page: a port and a thread of its own, for browsers with the token of this job.
#pragma once

#include <lockstep/dashboard/job_facts.h>
#include <lockstep/dashboard/job_view.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace lockstep::dashboard {

/// The address at which a page is served.
struct PageAddress {
  std::string host = "127.0.0.1";  ///< a name or an address of this machine, to listen on
  std::uint16_t port = 0;          ///< 0: a free one
};

/// "80", "host:80" or "[::1]:80". Error(invalid_argument) for other texts; `name`: the flag or key, for the message.
PageAddress parse_page_address(const std::string& text, const std::string& name);

/// The description of a job that begins now, served by this process: its time, host and version.
JobDescription describe_job_here();

struct PageServerOptions {
  PageAddress address{};
  /// Receives the requests to kill ranks, on the server's thread; must not block. Without it pages only show the job.
  std::function<void(const KillRequest&)> kill{};
};

/// What is left when the job has ended.
struct EndedPage {
  std::string html;      ///< a file that needs no server
  std::string work_dir;  ///< the one that the ranks have reported; empty: none
  bool has_steps = false;
};

/// Writes the page into `file`, but not that of a job without steps over another one. Returns the line for the user:
/// where it is, or why it is not kept.
std::string keep_page(const EndedPage& page, const std::filesystem::path& file);

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

  /// The same for a job about which everything is known already; this sets `facts.at`.
  void show(JobFacts facts);

  void answer(const KillRequest& request, bool ok, const std::string& text);

  /// The job has ended: pages get the last update, and the server closes, within about half a second. To be called at
  /// most once, and no other call after it.
  EndedPage end(JobEnd end);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::dashboard
