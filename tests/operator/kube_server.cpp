#include "operator/kube_server.h"

#include <apps/operator/api/resource.h>
#include <apps/operator/job/job.h>
#include <apps/operator/job/json.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/text.h>
#include <lockstep/base/unique_fd.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "support/memory_folder.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kServerLimit = 120s;
constexpr auto kStartLimit = 180s;

fs::path tools() {
  if (const auto given = find(current_environment(), "LOCKSTEP_TEST_TOOLS")) return *given;
  return fs::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "tools";
}

bool has_program(const std::string& name) {
  for (const char* folder : {"/usr/bin", "/usr/local/bin", "/bin"}) {
    if (::access((fs::path(folder) / name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

fs::path cache() { return fs::path(LOCKSTEP_BINARY_DIR) / "kube"; }

/// What stands for the API server in the folder of programs: runs it again and again once a file `away` was there, but
/// not while it is. (The script has signals for that; its shell waits in their traps, and may then miss the end of a
/// child.)
constexpr const char* kRestartableServer = R"(#!/bin/sh
server() { setpriv --pdeathsig KILL -- sh -c 'echo $$ >"$KUBE_AWAY/process"; exec "$@"' "$0" "$0.real" "$@"; }
if [ -z "${KUBE_AWAY:-}" ]; then exec "$0.real" "$@"; fi
server "$@"
status=$?
if [ ! -e "$KUBE_AWAY/away" ]; then exit $status; fi
while true; do
  : >"$KUBE_AWAY/ended"
  while [ -e "$KUBE_AWAY/away" ]; do sleep 0.05; done
  server "$@"
  sleep 0.05
done
)";

/// Unpacks the server's programs, unless they are there with this script; other test binaries wait.
void prepare_cache() {
  fs::create_directories(cache());
  const UniqueFd lock(::open((cache() / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ::flock(lock.get(), LOCK_EX);
  const auto bin = cache() / "bin";
  if (fs::exists(bin / "kube-apiserver.real") && read_file(bin / "kube-apiserver") == kRestartableServer) return;
  fs::remove_all(bin);
  fs::create_directories(bin);
  ChildOptions unpack;
  unpack.arguments = {"tar", "-C", bin.string(), "-xJf", (tools() / "kube_bin.tar.xz").string()};
  const auto done = run_and_capture(unpack, kServerLimit);
  if (!done.status.ok()) fail(ErrorKind::io, "test", "cannot unpack the API server: {}", done.err);
  fs::remove(bin / "etcd");
  fs::create_symlink("/usr/bin/etcd", bin / "etcd");
  write_file_atomically(bin / "starts-again", kRestartableServer);
  fs::permissions(bin / "starts-again", fs::perms::owner_all);
  // Last: who sees its second name finds all the rest.
  fs::rename(bin / "kube-apiserver", bin / "kube-apiserver.real");
  fs::rename(bin / "starts-again", bin / "kube-apiserver");
}

/// Whether something listens at a server's address, "https://127.0.0.1:PORT": a killed server's port stays taken for a
/// moment.
bool listens(const std::string& server) {
  const auto port = parse_integer(server.substr(server.rfind(':') + 1));
  if (!port) fail(ErrorKind::invalid_argument, "test", "'{}' ends with no port", server);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(*port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// The lines "export NAME=VALUE" that the script prints once all is ready; fewer when it is not ready in time.
std::map<std::string, std::string> read_exports(int fd) {
  std::string text;
  char buffer[4096];
  pollfd input{fd, POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + kStartLimit;
  const auto left = [&] {
    return static_cast<int>(
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count());
  };
  while (left() > 0 && ::poll(&input, 1, left()) > 0) {
    const auto count = ::read(fd, buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  std::map<std::string, std::string> variables;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const auto equals = line.find('=');
    if (line.starts_with("export ") && equals != std::string::npos)
      variables[line.substr(7, equals - 7)] = line.substr(equals + 1);
  }
  return variables;
}

}  // namespace

std::optional<std::string> KubeServer::obstacle() {
  for (const char* file : {"kube_start.sh", "kube_bin.tar.xz"}) {
    if (fs::exists(tools() / file)) continue;
    return fmt::format("there is no {} in {}; LOCKSTEP_TEST_TOOLS names the folder with a Kubernetes API server", file,
                       tools().string());
  }
  for (const char* program : {"etcd", "jq", "openssl", "curl", "setpriv", "xz"}) {
    if (!has_program(program)) return fmt::format("there is no {} here", program);
  }
  return std::nullopt;
}

KubeServer& KubeServer::get() {
  static std::string trouble;  // a server that does not start is not tried again for each test
  if (!trouble.empty()) fail(ErrorKind::io, "test", "{}", trouble);
  try {
    static KubeServer server;
    return server;
  } catch (const std::exception& error) {
    trouble = error.what();
    throw;
  }
}

// A server that does not come up is not what these tests are about: another one is started, with what the first one
// printed last.
KubeServer::KubeServer() {
  prepare_cache();
  try {
    start();
  } catch (const Error& error) {
    std::cerr << "the API server is started again, as the first one did not come up: " << error.what() << "\n"
              << last_lines() << "\n";
    script_->stop(std::chrono::seconds(20));
    start();
  }
}

void KubeServer::start() {
  ChildOptions options;
  options.arguments = {(tools() / "kube_start.sh").string(), cache().string()};
  options.environment = current_environment();
  (*options.environment)["KUBE_AWAY"] = away_.path().string();
  (*options.environment)["TMPDIR"] = memory_folder().string();
  (*options.environment)["KUBE_APISERVER_FLAGS"] = "--min-request-timeout=5";
  options.out = ChildStream::pipe;
  options.err = ChildStream::inherit;
  script_.emplace(options);
  variables_ = read_exports(script_->out().get());
  if (!variables_.contains("KUBECONFIG"))
    fail(ErrorKind::io, "test", "its script ended, or took more than {} s", kStartLimit.count());
  auto admin = client();
  const auto made =
      admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kube::custom_resource_definition());
  if (!made.ok()) fail(ErrorKind::io, "test", "the CRD is refused: {}", made.text());
  const auto deadline = std::chrono::steady_clock::now() + kStartLimit;
  for (;;) {
    const auto answer = admin.get(kube::path_of(kube::lockstep_jobs(), ""));
    if (answer.ok()) return;
    if (std::chrono::steady_clock::now() > deadline)
      fail(ErrorKind::timeout, "test", "LockstepJobs are not served: {}", answer.text());
    std::this_thread::sleep_for(50ms);
  }
}

/// The last lines of the servers' logs.
std::string KubeServer::last_lines() const {
  if (!variables_.contains("KUBE_FOLDER")) return "";
  std::string text;
  for (const char* name : {"etcd.log", "kube-apiserver.log", "kube-controller-manager.log"}) {
    const auto log = read_file(fs::path(variable("KUBE_FOLDER")) / name).value_or("");
    constexpr std::size_t kShown = 1500;
    text += fmt::format("{}: ...{}\n", name, log.substr(log.size() > kShown ? log.size() - kShown : 0));
  }
  return text;
}

// With SIGKILL its temporary folder would stay.
KubeServer::~KubeServer() {
  if (script_) script_->stop(std::chrono::seconds(20));
}

fs::path KubeServer::certificate_kubeconfig() const { return fs::path(variable("KUBE_FOLDER")) / "cert.kubeconfig"; }

kube::Access KubeServer::access() const { return kube::find_access(kubeconfig().string(), "", {}); }

void KubeServer::take_away() {
  write_file_atomically(away_.path() / "away", "");
  const auto process = read_file(away_.path() / "process").value_or("");
  const auto number = parse_integer(process.substr(0, process.find('\n')));
  if (!number) fail(ErrorKind::io, "test", "'{}' is no process of an API server", process);
  fs::remove(away_.path() / "ended");
  ::kill(static_cast<pid_t>(*number), SIGKILL);
  // The script must see that the server ended while `away` is there: otherwise it ends, too.
  const auto deadline = std::chrono::steady_clock::now() + kServerLimit;
  while (!fs::exists(away_.path() / "ended") || listens(variable("KUBE_SERVER"))) {
    if (std::chrono::steady_clock::now() > deadline)
      fail(ErrorKind::timeout, "test", "the killed API server does not end\n{}", last_lines());
    std::this_thread::sleep_for(10ms);
  }
}

void KubeServer::bring_back() {
  fs::remove(away_.path() / "away");
  const auto deadline = std::chrono::steady_clock::now() + kServerLimit;
  while (!listens(variable("KUBE_SERVER")) || !kubectl({"get", "--raw", "/readyz"}).status.ok()) {
    if (std::chrono::steady_clock::now() > deadline)
      fail(ErrorKind::timeout, "test", "the API server does not come back\n{}", last_lines());
    std::this_thread::sleep_for(50ms);
  }
}

std::string KubeServer::new_space() {
  const std::string name = fmt::format("test-{}", ++spaces_);
  auto admin = client();
  const auto made = admin.create("/api/v1/namespaces", {{"metadata", {{"name", name}}}});
  if (!made.ok()) fail(ErrorKind::io, "test", "no namespace: {}", made.text());
  // Until then no Pod could be created.
  const auto deadline = std::chrono::steady_clock::now() + kServerLimit;
  const auto path = fmt::format("/api/v1/namespaces/{}/serviceaccounts/default", name);
  for (;;) {
    const auto account = admin.get(path);
    if (account.ok() && !kube::list_at(account.object, "secrets").empty()) return name;
    if (std::chrono::steady_clock::now() > deadline)
      fail(ErrorKind::timeout, "test", "no service account in {}\n{}", name, last_lines());
    std::this_thread::sleep_for(20ms);
  }
}

Captured KubeServer::kubectl(std::vector<std::string> arguments) const {
  ChildOptions options;
  options.arguments = {(cache() / "bin" / "kubectl").string(), "--kubeconfig", kubeconfig().string()};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  return run_and_capture(options, kServerLimit);
}

}  // namespace lockstep::test
