// Probes of the machine and the environment of this process and of the files that it uses; and of interfaces, names
// and ports.
#include <lockstep/base/crypto.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/base/threads.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/doctor/probe.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <future>
#include <sstream>
#include <system_error>
#include <utility>

namespace lockstep::doctor {
namespace {

std::uint64_t size_of_mount(const std::filesystem::path& folder) {
  struct statvfs info {};
  return ::statvfs(folder.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize : 0;
}

std::string try_memfd() {
  const UniqueFd fd(::memfd_create("lockstep-doctor", MFD_CLOEXEC));
  return fd ? "" : std::generic_category().message(errno);
}

// The identity of the machine and the network namespace of this process.
std::string network_of_this_process() {
  const auto network = namespace_id("/proc/self/ns/net");
  return network ? boot_id() + "/" + *network : boot_id();
}

bool is_container(const Environment& environment, const std::filesystem::path& root) {
  std::error_code ignored;
  return std::filesystem::exists(root / ".dockerenv", ignored) ||
         std::filesystem::exists(root / "run" / ".containerenv", ignored) ||
         environment.contains("KUBERNETES_SERVICE_HOST");
}

// "http://user:secret@host" with the secret replaced by "***".
std::string without_password(const std::string& url) {
  const auto at = url.rfind('@');
  if (at == std::string::npos) return url;
  const auto scheme = url.find("://");
  const auto begin = scheme == std::string::npos ? 0 : scheme + 3;
  const auto colon = url.find(':', begin);
  if (colon == std::string::npos || colon > at) return url;
  return url.substr(0, colon + 1) + "***" + url.substr(at);
}

// "580.65.06" of "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ...".
std::string version_in(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool is_version = word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos && word.front() != '.';
    if (is_version) return word;
  }
  return "";
}

// Reads NVIDIA's driver from files only: a query through its libraries would bind the process to the driver.
void probe_gpus(Gpus& gpus, const std::filesystem::path& root) {
  const auto folder = root / "proc" / "driver" / "nvidia";
  std::string line;
  if (std::ifstream in(folder / "version"); std::getline(in, line)) gpus.driver = version_in(line);
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator(folder / "gpus", none)) {
    std::ifstream in(device.path() / "information");
    while (std::getline(in, line)) {
      constexpr std::string_view kModel = "Model:";
      if (!line.starts_with(kModel)) continue;
      const auto begin = line.find_first_not_of(" \t", kModel.size());
      if (begin != std::string::npos) gpus.models.push_back(line.substr(begin));
    }
  }
  std::ranges::sort(gpus.models);
}

void probe_limits(Facts& facts) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  facts.open_files = limit.rlim_cur;
  facts.open_files_hard = limit.rlim_max;
}

}  // namespace

std::map<std::string, std::string> find_proxies(const Environment& environment) {
  constexpr std::array<const char*, 6> kVariables = {"http_proxy", "https_proxy", "all_proxy",
                                                     "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};
  std::map<std::string, std::string> proxies;
  for (const auto* variable : kVariables) {
    const auto value = find(environment, variable);
    if (value && !value->empty()) proxies[variable] = without_password(*value);
  }
  return proxies;
}

void probe_machine(Facts& facts, const Environment& environment, const std::filesystem::path& root) {
  facts.network = network_of_this_process();
  facts.interfaces = probe_interfaces();
  facts.proxies = find_proxies(environment);
  facts.no_proxy = find(environment, "no_proxy").value_or(find(environment, "NO_PROXY").value_or(""));
  facts.in_container = is_container(environment, root);
  facts.shm_bytes = size_of_mount(root / "dev" / "shm");
  facts.memfd_problem = try_memfd();
  facts.cpus = usable_cpus();
  facts.omp_threads = parse_integer(find(environment, "OMP_NUM_THREADS").value_or(""));
  probe_gpus(facts.gpus, root);
  facts.gpus.visible = find(environment, "CUDA_VISIBLE_DEVICES");
  probe_limits(facts);
}

namespace {

constexpr std::uintmax_t kLargest = 64 << 20;

std::vector<std::string> own_arguments() {
  std::vector<std::string> arguments;
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  for (std::string one; std::getline(in, one, '\0');) arguments.push_back(one);
  return arguments;
}

}  // namespace

std::string probe_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) return "";
  Sha256 hash;
  std::array<char, 65536> buffer{};
  do {
    in.read(buffer.data(), buffer.size());
    hash.update(std::string_view(buffer.data(), static_cast<std::size_t>(in.gcount())));
  } while (in.good());
  return in.eof() ? hash.hex() : "";
}

std::map<std::string, std::string> probe_command_line() {
  std::map<std::string, std::string> found = {{"this program", probe_file("/proc/self/exe")}};
  const auto arguments = own_arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const auto& text = arguments[i];
    const auto equals = text.starts_with('-') ? text.find('=') : std::string::npos;
    const auto name = equals == std::string::npos ? text : text.substr(equals + 1);
    std::error_code error;
    const bool is_file = std::filesystem::is_regular_file(name, error);
    if (is_file && std::filesystem::file_size(name, error) <= kLargest) found[name] = probe_file(name);
  }
  return found;
}

std::vector<Interface> probe_interfaces() {
  std::vector<Interface> found;
  for (auto& [name, address, loopback] : own_interfaces()) {
    const bool link_local = address.starts_with("fe80") || address.starts_with("169.254.");
    if (!address.empty() && !link_local) found.push_back({std::move(name), std::move(address), loopback});
  }
  return found;
}

Name probe_name(const std::string& name, const WaitLimit& wait_limit) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto addresses = call_detached([name] { return resolve(name); });  // the system's resolver cannot be interrupted
  Name found{name};
  do {
    found.answered = addresses.wait_for(wait_limit.slice()) == std::future_status::ready;
  } while (!found.answered && !wait_limit.over());
  if (found.answered) found.addresses = addresses.get();
  found.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  return found;
}

namespace {

// Binds the port as the store does: all addresses, IPv6 with IPv4 if there is IPv6. Returns 0 or errno.
int bind_for_a_moment(std::uint16_t number) {
  const int on = 1;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(number);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(number);
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool has_six = static_cast<bool>(socket);
  if (!has_six) socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  // Ignores connections of an earlier job in TIME_WAIT.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* address = has_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  // Does not listen, because another rank may already try to connect.
  return ::bind(socket.get(), address, has_six ? sizeof six : sizeof four) == 0 ? 0 : errno;
}

// The inode of the socket that listens on a port, from a kernel table such as /proc/net/tcp.
std::string inode_of_listener(const char* table, std::uint16_t number) {
  constexpr auto kListens = "0A";
  const auto end = fmt::format(":{:04X}", number);
  std::ifstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, skipped, inode;
    fields >> slot >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    if (fields >> inode && state == kListens && local.ends_with(end)) return inode;
  }
  return "";
}

bool holds(const std::filesystem::path& process, const std::string& link) {
  std::error_code error;  // processes may end during the search
  for (std::filesystem::directory_iterator entry(process / "fd", error), end; entry != end; entry.increment(error)) {
    if (std::filesystem::read_symlink(entry->path(), error) == link) return true;
  }
  return false;
}

// The process that holds the port: "python3 (pid 4711)". Processes of other users cannot be identified.
std::string holder_of(std::uint16_t number) {
  auto inode = inode_of_listener("/proc/net/tcp", number);
  if (inode.empty()) inode = inode_of_listener("/proc/net/tcp6", number);
  if (inode.empty()) return "another program";
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; entry != end; entry.increment(error)) {
    const auto pid = entry->path().filename().string();
    if (!parse_integer(pid) || !holds(entry->path(), fmt::format("socket:[{}]", inode))) continue;
    std::string program;
    std::getline(std::ifstream(entry->path() / "comm"), program);
    return fmt::format("{} (pid {})", program, pid);
  }
  return "a program that this user may not inspect (another user's, or outside this container)";
}

}  // namespace

Port probe_port(std::uint16_t number) {
  const int error = bind_for_a_moment(number);
  if (error == 0) return {number};
  if (error == EADDRINUSE) return {number, "taken by " + holder_of(number)};
  return {number, std::generic_category().message(error)};
}

}  // namespace lockstep::doctor
