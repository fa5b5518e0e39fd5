// The thread of a live page: a listener that checks the token of each request, the view of the job, and the pages that
// are open.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/base/shown_text.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/base/threads.h>
#include <lockstep/dashboard/job_json.h>
#include <lockstep/dashboard/page.h>
#include <lockstep/dashboard/server.h>
#include <lockstep/membership/service/listener.h>
#include <lockstep/version.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep::dashboard {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostPages = 128;
constexpr std::size_t kMostConnections = 256;
constexpr std::size_t kMostUnread = 64;  // about a minute of updates
constexpr std::size_t kMostUnreadBytes = std::size_t{8} * 1024 * 1024;
constexpr auto kFarewell = std::chrono::milliseconds(500);
constexpr std::string_view kViewPath = "/v1/view";

membership::ListenerOptions listener_options(const PageServerOptions& options) {
  membership::ListenerOptions listener;
  listener.host = options.address.host;
  listener.port = options.address.port;
  listener.name = "the live page of a job of Lockstep";
  listener.cannot_listen =
      "The live page needs an address of this machine and a port that no other process uses; 0 is a "
      "free one";
  listener.tls_setting = "TLS";
  listener.most_connections = kMostConnections;
  listener.longest_message = kLongestRequest;
  listener.most_unread = kMostUnread;
  listener.most_unread_bytes = kMostUnreadBytes;
  listener.keep_alive = true;
  return listener;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

/// The value of the only parameter "token"; nullopt when there is none, or another one.
std::optional<std::string_view> token_in(std::string_view target) {
  constexpr std::string_view kName = "token=";
  const auto mark = target.find('?');
  if (mark == std::string_view::npos) return std::nullopt;
  const auto query = target.substr(mark + 1);
  if (!query.starts_with(kName) || query.find('&') != std::string_view::npos) return std::nullopt;
  return query.substr(kName.size());
}

net::HttpAnswer plain_answer(unsigned status, std::string text) {
  net::HttpAnswer answer;
  answer.status = status;
  answer.content_type = "text/plain";
  answer.body = std::move(text);
  answer.close = true;
  return answer;
}

/// The host for an address that browsers can open.
std::string host_for_browsers(const std::string& host) {
  if (host != "0.0.0.0" && host != "::") return host;
  return host_name().value_or("127.0.0.1");
}

}  // namespace

class PageServer::State {
 public:
  State(PageServerOptions options, JobDescription job)
      : options_(std::move(options)), token_(random_token()), page_(make_page()), listener_(listen()) {
    view_.job = std::move(job);
    view_.job.can_kill = static_cast<bool>(options_.kill);
    address_ = fmt::format("http://{}/?token={}",
                           host_and_port(host_for_browsers(options_.address.host), listener_->port()), token_);
    const SignalsBlocked for_the_thread;
    thread_ = std::thread([this] { serve(); });
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (!thread_.joinable()) return;
    listener_->stop();
    thread_.join();
  }

  const std::string& address() const { return address_; }
  void report(JobReport report) {
    listener_->post([this, report = std::move(report)]() mutable { take(look_at(std::move(report), seconds())); });
  }
  void show(JobFacts facts) {
    listener_->post([this, facts = std::move(facts)]() mutable {
      facts.at = seconds();
      take(facts);
    });
  }
  void answer(const KillRequest& request, bool ok, std::string text) {
    listener_->post([this, request, ok, text = std::move(text)] {
      if (pages_.contains(request.page)) listener_->send(request.page, answer_json(request.rank, ok, text));
    });
  }
  EndedPage end(JobEnd end);

 private:
  net::HttpAnswer make_page() const;
  std::unique_ptr<membership::Listener> listen();
  void serve() noexcept;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

  bool has_token(std::string_view target) const {
    const auto given = token_in(target);
    return given && is_same_secret(*given, token_);
  }
  bool accepts(const std::string& target) const {
    return has_token(target) && path_of(target) == kViewPath && !closes_at_ && pages_.size() < kMostPages;
  }
  net::HttpAnswer answer_to(const net::HttpRequest& request) const;

  void open(std::uint64_t page);
  void received(std::uint64_t page, const std::string& text);
  void ask_for_kill(std::uint64_t page, int rank);
  void take(const JobFacts& facts);
  void show(const Changes& changes);
  void close_pages();
  void tick() {
    if (closes_at_ && (pages_.empty() || Clock::now() >= *closes_at_)) listener_->stop();
  }

  const PageServerOptions options_;
  const std::string token_;
  const net::HttpAnswer page_;
  const Clock::time_point started_ = Clock::now();
  std::string address_;
  // For the server's thread alone.
  JobView view_;
  std::map<std::uint64_t, std::optional<int>> pages_;  ///< the rank whose lines a page shows, by connection
  std::optional<Clock::time_point> closes_at_;         ///< the job has ended
  std::unique_ptr<membership::Listener> listener_;
  std::thread thread_;
};

net::HttpAnswer PageServer::State::make_page() const {
  net::HttpAnswer page;
  page.content_type = "text/html; charset=utf-8";
  page.body = live_page();
  page.fields = {{"Content-Security-Policy", content_security_policy()},
                 {"Referrer-Policy", "no-referrer"},
                 {"X-Content-Type-Options", "nosniff"},
                 {"Cache-Control", "no-store"}};
  page.close = true;
  return page;
}

std::unique_ptr<membership::Listener> PageServer::State::listen() {
  membership::ListenerCalls calls;
  calls.opened = [this](auto id, const auto&) { open(id); };
  calls.received = [this](auto id, const auto& text) { received(id, text); };
  calls.closed = [this](auto id, const auto&, bool) { pages_.erase(id); };
  calls.tick = [this] { tick(); };
  calls.status = [] { return std::string(); };
  calls.has_registered = [this](auto id) { return pages_.contains(id); };
  calls.is_admitted = [this](auto id) { return pages_.contains(id); };
  calls.accepts = [this](const auto& target) { return accepts(target); };
  calls.answer = [this](const auto& request) { return answer_to(request); };
  try {
    return std::make_unique<membership::Listener>(listener_options(options_), std::move(calls));
  } catch (const Error& error) {
    throw Error(error.kind(), "dashboard", error.message());
  }
}

void PageServer::State::serve() noexcept {
  try {
    listener_->run();
  } catch (const std::exception& error) {
    log_error("the live page of the job ended: {}", error.what());
  }
  listener_->close_all();
}

// Without the token, an answer says nothing, not even which paths there are.
net::HttpAnswer PageServer::State::answer_to(const net::HttpRequest& request) const {
  if (!has_token(request.target)) return plain_answer(403, "");
  if (request.method != "GET") return plain_answer(405, "only GET\n");
  const auto path = path_of(request.target);
  if (path == "/") return page_;
  if (path != kViewPath) return plain_answer(404, "the page is at /\n");
  if (request.wants_websocket) return plain_answer(503, "too many pages are open, or the job has ended\n");
  return plain_answer(400, "a WebSocket is here\n");
}

void PageServer::State::open(std::uint64_t page) {
  pages_[page] = std::nullopt;
  listener_->send(page, whole_json(view_));
  if (closes_at_) listener_->close(page, "");
}

void PageServer::State::received(std::uint64_t page, const std::string& text) {
  const auto request = parse_request(text);
  if (request.kind == PageRequest::Kind::kill) return ask_for_kill(page, *request.rank);
  pages_[page] = request.rank;
  if (request.rank) listener_->send(page, lines_json(view_, *request.rank));
}

void PageServer::State::ask_for_kill(std::uint64_t page, int rank) {
  const auto refuse = [&](const std::string& why) { listener_->send(page, answer_json(rank, false, why)); };
  if (!options_.kill) return refuse("this page only shows the job (--dashboard-kill allows to kill ranks)");
  const auto found = view_.ranks.find(rank);
  if (found == view_.ranks.end()) return refuse(fmt::format("there is no rank {} here", rank));
  const auto& row = found->second.row;
  const bool runs = row.state != RankState::ended && row.state != RankState::failed;
  if (!runs || view_.end) return refuse(fmt::format("rank {} has ended", rank));
  options_.kill({page, rank, row.pid});
}

void PageServer::State::take(const JobFacts& facts) {
  if (closes_at_) return;
  auto next = observe(std::move(view_), facts);
  view_ = std::move(next.view);
  show(next.changes);
}

void PageServer::State::show(const Changes& changes) {
  if (pages_.empty()) return;
  const auto text = changes.other_ranks ? whole_json(view_) : changes_json(view_, changes);
  const auto pages = pages_;  // `send` may end one
  for (const auto& [page, rank] : pages) {
    listener_->send(page, text);
    if (!rank) continue;
    const bool other_lines = std::find(changes.lines.begin(), changes.lines.end(), *rank) != changes.lines.end();
    if (other_lines || changes.other_ranks) listener_->send(page, lines_json(view_, *rank));
  }
}

void PageServer::State::close_pages() {
  closes_at_ = Clock::now() + kFarewell;
  const auto pages = pages_;
  for (const auto& [page, rank] : pages) listener_->close(page, "");
}

EndedPage PageServer::State::end(JobEnd end) {
  listener_->post([this, end] {
    auto next = end_job(std::move(view_), end, seconds());
    view_ = std::move(next.view);
    show(next.changes);
    close_pages();
  });
  thread_.join();
  if (!view_.end) view_ = end_job(std::move(view_), std::move(end), seconds()).view;  // the thread broke before
  return {page_of_ended_job(ended_json(view_)), view_.work_dir, view_.progress.step.has_value()};
}

PageAddress parse_page_address(const std::string& text, const std::string& name) {
  const auto given = parse_listening_address(text);
  if (!given) {
    fail(ErrorKind::invalid_argument, "dashboard",
         "{} '{}' must be a port from 0 to 65535, or an address of this machine and a port, as in 10.0.0.1:8080 or "
         "[::1]:8080",
         name, cut_text(text));
  }
  return {given->host, *given->port};
}

JobDescription describe_job_here() {
  JobDescription job;
  job.version = version();
  job.host = host_name().value_or("localhost");
  job.started = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return job;
}

std::string keep_page(const EndedPage& page, const std::filesystem::path& file) {
  std::error_code ignored;
  if (!page.has_steps && std::filesystem::exists(file, ignored)) {
    return fmt::format("the page of this job is not kept: it has no steps, and {} is there", file.string());
  }
  try {
    write_file_atomically(file, page.html);
    return fmt::format("the page of this job: {}", file.string());
  } catch (const Error& error) {
    return fmt::format("the page of this job is not kept: {}", error.message());
  }
}

PageServer::PageServer(PageServerOptions options, JobDescription job)
    : state_(std::make_unique<State>(std::move(options), std::move(job))) {}
PageServer::~PageServer() = default;
const std::string& PageServer::address() const { return state_->address(); }
void PageServer::report(JobReport report) { state_->report(std::move(report)); }
void PageServer::show(JobFacts facts) { state_->show(std::move(facts)); }
void PageServer::answer(const KillRequest& request, bool ok, const std::string& text) {
  state_->answer(request, ok, text);
}
EndedPage PageServer::end(JobEnd end) { return state_->end(std::move(end)); }

}  // namespace lockstep::dashboard
