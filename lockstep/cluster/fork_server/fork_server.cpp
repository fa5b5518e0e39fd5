// The launcher's side of the fork server: starts it, waits until the program is loaded, and gets each rank as a fork.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/fork_server/can_fork.h>
#include <lockstep/cluster/fork_server/channel.h>
#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/processes/event_loop.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/rank_start.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::cluster {
namespace {

/// The time limit for answers that normally take milliseconds.
constexpr int kAnswerMilliseconds = 60'000;

/// The changes that turn one environment into another: "NAME=value" sets a variable, and "NAME" removes it.
std::vector<std::string> changes(const Environment& from, const Environment& to) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : to) {
    if (find(from, name) != value) entries.push_back(fmt::format("{}={}", name, value));
  }
  for (const auto& [name, value] : from) {
    if (!to.contains(name)) entries.push_back(name);
  }
  return entries;
}

ChildOptions server_options(const LaunchOptions& options, const Environment& environment, int socket) {
  ChildOptions child;
  child.arguments = command_of_rank(options.program, 0, options.environment);
  child.environment = environment;
  (*child.environment)[kServerVariable] = std::to_string(socket);
  child.kept_descriptors = {socket};
  child.out = child.err = ChildStream::pipe;
  return child;
}

constexpr std::chrono::hours kLook(1);  // a long limit is enough, since everything here is an event

/// Reads available bytes. True while the stream is open.
bool read_some(UniqueFd& stream, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(stream.get(), buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  if (count == 0) stream.reset();
  return count > 0;
}

void read_rest(UniqueFd& stream, std::string& text) {
  if (!stream) return;
  ::fcntl(stream.get(), F_SETFL, O_NONBLOCK);
  while (read_some(stream, text)) {
  }
  stream.reset();
}

/// Reads both streams (skips closed ones) into the texts that follow them until `awaited` is readable, then reads the
/// rest and closes them. False when `stop_fd` (-1: none) was readable before.
bool read_until_readable(UniqueFd& out, std::string& out_text, UniqueFd& err, std::string& err_text, int awaited,
                         int stop_fd) {
  bool ready = false;
  bool stopped = false;
  while (!ready && !stopped) {
    Poller poller;
    if (stop_fd >= 0) poller.add(stop_fd, POLLIN, [&] { stopped = true; });
    if (out) poller.add(out.get(), POLLIN, [&] { read_some(out, out_text); });
    if (err) poller.add(err.get(), POLLIN, [&] { read_some(err, err_text); });
    poller.add(awaited, POLLIN, [&] { ready = true; });
    poller.wait(kLook);
  }
  read_rest(out, out_text);
  read_rest(err, err_text);
  return ready;
}

}  // namespace

void ForkedRanks::release() {
  const std::string bytes(children.size(), 'x');
  const ssize_t written = ::write(gate.get(), bytes.data(), bytes.size());
  if (written != std::ssize(bytes) && errno != EPIPE) {  // EPIPE: all ranks have been killed, which is detected later
    fail(ErrorKind::io, "launch", "cannot let the ranks go on: {}", std::strerror(errno));
  }
  gate.reset();
}

ForkServer::ForkServer(const LaunchOptions& options)
    : environment_(environment_to_load_in(options.environment, options.processes)) {
  Channel channel = make_channel();
  socket_ = std::move(channel.mine);
  const auto kept = count_descriptors().kept_on_exec;
  process_.emplace(server_options(options, environment_, channel.theirs.get()));
  send_message(socket_.get(), kHello, {std::to_string(kept)});
}

std::optional<std::string> ForkServer::await_obstacle(int stop_fd) {
  if (!obstacle_) obstacle_ = hear_hello(stop_fd);
  if (*obstacle_) process_.reset();
  return *obstacle_;
}

std::optional<std::string> ForkServer::hear_hello(int stop_fd) {
  if (!read_until_readable(process_->out(), said_.out, process_->err(), said_.err, socket_.get(), stop_fd)) {
    return "a signal arrived while it was loaded";
  }
  const auto answer = receive_message(socket_.get());
  if (!answer) return "it ended, or was ended, while it was loaded";
  if (answer->kind == kReady) return std::nullopt;
  return answer->words.empty() ? answer->kind : answer->words.front();
}

std::vector<std::string> ForkServer::answer_to(const char* request, const char* expected) {
  pollfd watched{socket_.get(), POLLIN, 0};
  if (::poll(&watched, 1, kAnswerMilliseconds) == 0) {
    fail(ErrorKind::timeout, "launch", "cannot {}: the process that forks ranks does not answer", request);
  }
  auto answer = receive_message(socket_.get());
  if (answer && answer->kind == expected && !answer->words.empty()) return std::move(answer->words);
  const std::string why = !answer ? "the process that forks ranks has ended"
                                  : (answer->words.empty() ? answer->kind : answer->words.front());
  fail(ErrorKind::io, "launch", "cannot {}: {}", request, why);
}

std::vector<Helper> ForkServer::helpers() const {
  std::vector<Helper> helpers;
  if (!process_) return helpers;
  helpers.push_back(watch_helper("lockstep-forks",
                                 "the job goes on without it, and a process that takes the place of a lost rank loads "
                                 "its program itself",
                                 process_->pid()));
  return helpers;
}

Child ForkServer::fork_one(const ChildOptions& rank, int gate) {
  std::vector<std::string> words = {std::to_string(::getpid())};
  for (auto& change : changes(environment_, rank.environment.value())) words.push_back(std::move(change));
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  send_message(socket_.get(), kRank, words, {gate, out.write_end.get(), err.write_end.get()});
  RunningChild running;
  running.pid = static_cast<pid_t>(parse_integer(answer_to("fork a rank", kPid).front()).value());
  // The rank is still a child of the forking process, and its pid cannot be reused: neither the forking process nor
  // this one, which becomes its parent, reaps unknown children.
  running.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, running.pid, 0)));
  if (!running.pidfd) {
    fail(ErrorKind::io, "launch", "cannot open a pidfd of process {}: {}", running.pid, std::strerror(errno));
  }
  running.out = std::move(out.read_end);
  running.err = std::move(err.read_end);
  return Child(std::move(running));
}

ForkedRanks ForkServer::fork(const std::vector<ChildOptions>& ranks) {
  ForkedRanks forked;
  Pipe gate = make_pipe();
  forked.gate = std::move(gate.write_end);
  forked.said = said_;
  try {
    send_message(socket_.get(), kBeginForks);
    for (const auto& rank : ranks) forked.children.push_back(fork_one(rank, gate.read_end.get()));
    send_message(socket_.get(), kEndForks);
    answer_to("fork the ranks", kReady);
  } catch (const Error&) {
    process_.reset();  // first: this process becomes the parent of its forks, and can then reap them
    throw;
  }
  return forked;
}

ForkAttempt::ForkAttempt(const LaunchOptions& options) : obstacle_(obstacle_to_forking(options)) {
  if (obstacle_) return;
  try {
    server_.emplace(options);
  } catch (const Error& error) {
    obstacle_ = error.message();  // starting the ranks will fail in the same way unless the cause was temporary
  }
}

bool ForkAttempt::ready(int stop_fd) {
  if (!obstacle_) obstacle_ = server_->await_obstacle(stop_fd);
  if (obstacle_) server_.reset();
  return !obstacle_;
}

std::optional<ForkedRanks> ForkAttempt::fork(const LaunchOptions& options, const Launch& job, int stop_fd) {
  return fork(options, prepare_ranks(options, job), stop_fd);
}

std::optional<ForkedRanks> ForkAttempt::fork(const LaunchOptions& options, const std::vector<ChildOptions>& ranks,
                                             int stop_fd) {
  bool unexpected = options.start_method == StartMethod::fork_server && !obstacle_;
  if (ready(stop_fd)) {
    try {
      return server_->fork(ranks);
    } catch (const Error& error) {
      obstacle_ = error.message();
      server_.reset();
      unexpected = true;
    }
  }
  if (unexpected) ::dprintf(options.err, "lockstep run: each rank loads its program itself: %s\n", obstacle_->c_str());
  return std::nullopt;
}

}  // namespace lockstep::cluster
