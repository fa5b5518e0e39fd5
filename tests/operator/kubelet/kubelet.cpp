#include "operator/kubelet/kubelet.h"

#include <apps/operator/api/client.h>
#include <apps/operator/api/resource.h>
#include <apps/operator/job/json.h>
#include <fcntl.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/base/process.h>
#include <lockstep/base/text.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "operator/kubelet/container_plan.h"
#include "operator/kubelet/pod_feed.h"
#include "operator/kubelet/sandbox.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using kube::list_at;
using kube::object_at;
using kube::text_at;
using nlohmann::json;

constexpr auto kTick = 50ms;
constexpr auto kTryAgain = 500ms;            // a Pod whose Secret is still missing, a server that is away
constexpr std::size_t kLongestWords = 4096;  // of a termination message
constexpr int kMostAddresses = 250;

const kube::Resource& nodes() {
  static const kube::Resource resource{"", "v1", "nodes", "Node"};
  return resource;
}

std::string now_text() {
  return kube::time_text(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
}

json condition(const char* type, bool holds) {
  return {{"type", type}, {"status", holds ? "True" : "False"}, {"lastTransitionTime", now_text()}};
}

/// A Pod of one of our nodes.
struct Charge {
  json pod;
  std::string address{};
  fs::path folder{};
  std::optional<Child> child{};
  std::string began{};
  bool told_running = false;
  bool stopping = false;           ///< it got SIGTERM, as the Pod is being deleted
  bool killed = false;             ///< and SIGKILL
  Clock::time_point deadline{};    ///< of its end
  Clock::time_point not_before{};  ///< of the next attempt to start it, or to tell of its end
  json last_status = json();       ///< of its end, still to be told; null: nothing
  bool told = false;               ///< its end is
};

class Kubelet {
 public:
  explicit Kubelet(const KubeletOptions& options);
  void run(std::stop_token stop);

 private:
  void make_nodes();
  void take(const PodFeed::News& news);
  void tick(Charge& charge);
  void assign(const json& pod);
  void start(Charge& charge);
  void tell_running(Charge& charge);
  void see_end(Charge& charge, const ExitStatus& status);
  void tell_end(Charge& charge);
  void end_deletion(Charge& charge);
  void read_commands();
  void obey(const std::string& line);
  Charge* find(const std::string& name);

  bool is_ours(const std::string& node) const { return node.starts_with(options_.node + "-") && !lost_.contains(node); }
  bool write_status(const json& pod, json status);
  std::optional<std::map<std::string, std::string>> read_data(const std::string& plural, const std::string& name);
  std::string new_address();
  void write_hosts();
  fs::path log_of(const std::string& name) const;

  KubeletOptions options_;
  kube::ApiClient client_;
  UniqueFd commands_;
  std::string rest_;
  std::string network_;
  int addresses_ = 0;
  std::set<std::string> lost_;
  std::map<std::string, json> unassigned_;  ///< by uid
  std::map<std::string, Charge> charges_;   ///< by uid
};

Kubelet::Kubelet(const KubeletOptions& options) : options_(options), client_(options.access) {
  std::random_device random;
  network_ = fmt::format("127.{}.{}", 64 + random() % 128, random() % 256);
  for (const char* name : {"logs", "pods"}) fs::create_directories(options_.folder / name);
  const auto fifo = options_.folder / "commands";
  fs::remove(fifo);
  if (::mkfifo(fifo.c_str(), 0600) != 0) fail(ErrorKind::io, "kubelet", "cannot make {}", fifo.string());
  // For reading and writing, so that it has no end between two writers.
  commands_.reset(::open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  write_hosts();
  make_nodes();
}

void Kubelet::make_nodes() {
  for (int i = 0; i < options_.nodes; ++i) {
    const auto name = fmt::format("{}-{}", options_.node, i);
    const auto made = client_.create(
        kube::path_of(nodes(), ""),
        {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}, {"labels", {{"test", "kubelet"}}}}}});
    if (!made.ok() && made.outcome != kube::Outcome::exists) {
      fail(ErrorKind::io, "kubelet", "cannot make the node {}: {}", name, made.text());
    }
    client_.patch(kube::path_of(nodes(), "", name, "status"),
                  {{"status", {{"conditions", {condition("Ready", true)}}}}});
  }
}

bool Kubelet::write_status(const json& pod, json status) {
  const auto answer = client_.patch(kube::path_of(kube::pods(), options_.space, kube::name_of(pod), "status"),
                                    {{"metadata", {{"uid", kube::uid_of(pod)}}}, {"status", std::move(status)}});
  if (!answer.ok()) log_warning("status of {}: {}", kube::name_of(pod), answer.text());
  // A Pod that is gone, or another one of its name, gets none.
  return answer.ok() || answer.outcome == kube::Outcome::missing || answer.outcome == kube::Outcome::conflict ||
         answer.outcome == kube::Outcome::invalid;
}

std::optional<std::map<std::string, std::string>> Kubelet::read_data(const std::string& plural,
                                                                     const std::string& name) {
  const auto& resource = plural == "secrets" ? kube::secrets() : kube::config_maps();
  const auto answer = client_.get(kube::path_of(resource, options_.space, name));
  if (!answer.ok()) return std::nullopt;
  std::map<std::string, std::string> data;
  for (const auto& [key, value] : object_at(answer.object, "data").items()) {
    const auto text = value.get<std::string>();
    data[key] = plural == "secrets" ? from_base64(text).value_or("") : text;
  }
  return data;
}

std::string Kubelet::new_address() {
  if (addresses_ == kMostAddresses) addresses_ = 0;  // those of Pods of long ago
  return fmt::format("{}.{}", network_, ++addresses_ + 1);
}

/// In place, as containers have this very file mounted.
void Kubelet::write_hosts() {
  std::string text = "127.0.0.1 localhost\n";
  for (const auto& [uid, charge] : charges_) {
    if (charge.address.empty()) continue;
    const json& spec = object_at(charge.pod, "spec");
    const auto host = text_at(spec, "hostname").empty() ? kube::name_of(charge.pod) : text_at(spec, "hostname");
    const auto full = fmt::format("{}.{}.{}.svc", host, text_at(spec, "subdomain"), options_.space);
    text += fmt::format("{} {}.cluster.local {} {}\n", charge.address, full, full, host);
  }
  const UniqueFd file(::open((options_.folder / "hosts").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file || ::pwrite(file.get(), text.data(), text.size(), 0) < 0 ||
      ::ftruncate(file.get(), static_cast<off_t>(text.size())) != 0) {
    fail(ErrorKind::io, "kubelet", "cannot write the hosts file in {}", options_.folder.string());
  }
}

fs::path Kubelet::log_of(const std::string& name) const {
  for (int life = 0;; ++life) {
    const auto log = options_.folder / "logs" / fmt::format("{}.{}.log", name, life);
    if (!fs::exists(log)) return log;
  }
}

void Kubelet::take(const PodFeed::News& news) {
  const auto uid = kube::uid_of(news.pod);
  if (news.gone) {
    unassigned_.erase(uid);
    if (charges_.erase(uid) > 0) write_hosts();  // its processes are killed
    return;
  }
  const auto node = text_at(object_at(news.pod, "spec"), "nodeName");
  const auto phase = text_at(object_at(news.pod, "status"), "phase");
  if (node.empty()) {
    unassigned_[uid] = news.pod;
    return;
  }
  unassigned_.erase(uid);
  if (!is_ours(node)) return;
  if (const auto known = charges_.find(uid); known != charges_.end()) {
    known->second.pod = news.pod;
  } else if (phase == "Pending") {
    charges_.emplace(uid, Charge{news.pod});
  }
}

void Kubelet::assign(const json& pod) {
  const auto listed = client_.list(kube::path_of(nodes(), ""), "test=kubelet");
  std::map<std::string, int> load;
  for (const json& node : listed.items) {
    if (is_ours(kube::name_of(node)) && !kube::true_at(object_at(node, "spec"), "unschedulable")) {
      load[kube::name_of(node)] = 0;
    }
  }
  for (const auto& [uid, charge] : charges_) {
    const auto found = load.find(text_at(object_at(charge.pod, "spec"), "nodeName"));
    if (found != load.end()) ++found->second;
  }
  const auto least =
      std::min_element(load.begin(), load.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least == load.end()) return;
  const auto name = kube::name_of(pod);
  const auto bound = client_.create(kube::path_of(kube::pods(), options_.space, name, "binding"),
                                    {{"metadata", {{"name", name}, {"uid", kube::uid_of(pod)}}},
                                     {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", least->first}}}});
  if (!bound.ok()) return;
  json assigned = pod;
  assigned["spec"]["nodeName"] = least->first;
  charges_.emplace(kube::uid_of(pod), Charge{assigned});
}

void Kubelet::start(Charge& charge) {
  const auto name = kube::name_of(charge.pod);
  if (charge.address.empty()) {
    charge.address = new_address();
    charge.folder = options_.folder / "pods" / kube::uid_of(charge.pod);
    fs::create_directories(charge.folder / "root");
    std::ofstream(charge.folder / "last_words");
    write_hosts();
  }
  const PodPlace place{charge.address, options_.path + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", charge.folder,
                       options_.claims};
  Sandbox sandbox = plan_container(charge.pod, place, [this](const std::string& plural, const std::string& data) {
    return read_data(plural, data);
  });
  sandbox.hosts = options_.folder / "hosts";
  sandbox.last_words = charge.folder / "last_words";
  sandbox.log = log_of(name);
  std::ofstream(charge.folder / "sandbox.json") << to_json(sandbox);
  ChildOptions child;
  child.arguments = {options_.program, "enter", (charge.folder / "sandbox.json").string(),
                     (charge.folder / "root").string()};
  charge.child.emplace(child);
  charge.began = now_text();
  log_info("{} runs as process {} with {}", name, charge.child->pid(), charge.address);
  tell_running(charge);
}

void Kubelet::tell_running(Charge& charge) {
  charge.told_running = write_status(
      charge.pod, {{"phase", "Running"},
                   {"podIP", charge.address},
                   {"podIPs", {{{"ip", charge.address}}}},
                   {"hostIP", "127.0.0.1"},
                   {"startTime", charge.began},
                   {"conditions",
                    {condition("PodScheduled", true), condition("Initialized", true),
                     condition("ContainersReady", true), condition("Ready", true)}},
                   {"containerStatuses",
                    {{{"name", text_at(list_at(object_at(charge.pod, "spec"), "containers").at(0), "name")},
                      {"image", "none"},
                      {"imageID", ""},
                      {"containerID", fmt::format("process://{}", charge.child->pid())},
                      {"ready", true},
                      {"restartCount", 0},
                      {"state", {{"running", {{"startedAt", charge.began}}}}}}}}});
}

void Kubelet::see_end(Charge& charge, const ExitStatus& status) {
  const int code = status.signal != 0 ? 128 + status.signal : status.code;
  json terminated = {{"exitCode", code},
                     {"reason", code == 0 ? "Completed" : "Error"},
                     {"startedAt", charge.began},
                     {"finishedAt", now_text()},
                     {"containerID", fmt::format("process://{}", charge.child->pid())}};
  if (status.signal != 0) terminated["signal"] = status.signal;
  const auto words = read_file(charge.folder / "last_words").value_or("");
  if (!words.empty()) terminated["message"] = words.substr(0, kLongestWords);
  log_info("{} ended: {}", kube::name_of(charge.pod), describe(status));
  charge.child.reset();  // and with it what is left of its group
  charge.last_status = {{"phase", code == 0 ? "Succeeded" : "Failed"},
                        {"conditions", {condition("ContainersReady", false), condition("Ready", false)}},
                        {"containerStatuses",
                         {{{"name", text_at(list_at(object_at(charge.pod, "spec"), "containers").at(0), "name")},
                           {"image", "none"},
                           {"imageID", ""},
                           {"ready", false},
                           {"restartCount", 0},
                           {"state", {{"terminated", terminated}}}}}}};
}

void Kubelet::tell_end(Charge& charge) {
  if (!write_status(charge.pod, charge.last_status)) {
    charge.not_before = Clock::now() + kTryAgain;
    return;
  }
  charge.last_status = json();
  charge.told = true;
}

void Kubelet::end_deletion(Charge& charge) {
  const auto answer = client_.remove(kube::path_of(kube::pods(), options_.space, kube::name_of(charge.pod)),
                                     {.uid = kube::uid_of(charge.pod), .grace_seconds = 0});
  if (answer.outcome == kube::Outcome::later || answer.outcome == kube::Outcome::lost) {
    charge.not_before = Clock::now() + kTryAgain;
  }
}

void Kubelet::tick(Charge& charge) {
  if (Clock::now() < charge.not_before) return;
  const json& about = object_at(charge.pod, "metadata");
  const bool deleted = !text_at(about, "deletionTimestamp").empty();
  if (charge.child) {
    if (const auto status = charge.child->poll()) {
      see_end(charge, *status);
    } else if (deleted && !charge.stopping) {
      charge.stopping = true;
      charge.deadline = Clock::now() + std::chrono::seconds(about.value("deletionGracePeriodSeconds", 30));
      ::kill(charge.child->pid(), SIGTERM);  // to the container's first process, as kubelets do
    } else if (charge.stopping && !charge.killed && Clock::now() > charge.deadline) {
      charge.killed = true;
      charge.child->signal_group(SIGKILL);
    } else if (!charge.told_running) {
      tell_running(charge);  // the server was away
    }
  }
  if (!charge.child && !charge.last_status.is_null()) tell_end(charge);
  if (charge.child || !charge.last_status.is_null()) return;
  if (deleted) {
    end_deletion(charge);
  } else if (!charge.told) {
    try {
      start(charge);
    } catch (const std::exception& error) {
      log_warning("{} cannot start yet: {}", kube::name_of(charge.pod), error.what());
      charge.not_before = Clock::now() + kTryAgain;
    }
  }
}

Charge* Kubelet::find(const std::string& name) {
  for (auto& [uid, charge] : charges_) {
    if (kube::name_of(charge.pod) == name && charge.child) return &charge;
  }
  log_warning("there is no running Pod '{}'", name);
  return nullptr;
}

void Kubelet::obey(const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  std::string name;
  std::string signal;
  words >> verb >> name >> signal;
  log_info("command: {}", line);
  if (verb == "lose") {
    for (auto at = charges_.begin(); at != charges_.end();) {
      at = text_at(object_at(at->second.pod, "spec"), "nodeName") == name ? charges_.erase(at) : std::next(at);
    }
    lost_.insert(name);
    client_.patch(kube::path_of(nodes(), "", name, "status"),
                  {{"status", {{"conditions", {condition("Ready", false)}}}}});
    return;
  }
  Charge* charge = find(name);
  if (charge == nullptr) return;
  if (verb == "kill") {
    charge->child->signal_group(static_cast<int>(parse_integer(signal).value_or(SIGKILL)));
  } else if (verb == "stop" || verb == "cont") {
    charge->child->signal_group(verb == "stop" ? SIGSTOP : SIGCONT);
  } else if (verb == "evict") {
    charge->child.reset();
    charge->last_status = {{"phase", "Failed"},
                           {"reason", "Evicted"},
                           {"message", "The node was low on resource: memory."},
                           {"conditions", {condition("Ready", false)}},
                           {"containerStatuses", json::array()}};
  } else {
    log_warning("'{}' is none of kill, stop, cont, evict, lose", verb);
  }
}

void Kubelet::read_commands() {
  char buffer[512];
  for (ssize_t count; (count = ::read(commands_.get(), buffer, sizeof buffer)) > 0;) {
    rest_.append(buffer, static_cast<std::size_t>(count));
  }
  for (std::size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1)) {
    obey(rest_.substr(0, end));
  }
}

void Kubelet::run(std::stop_token stop) {
  PodFeed feed(options_.access, options_.space);
  while (!stop.stop_requested()) {
    for (const auto& news : feed.take(kTick)) take(news);
    read_commands();
    for (auto at = unassigned_.begin(); at != unassigned_.end(); at = unassigned_.erase(at)) assign(at->second);
    for (auto& [uid, charge] : charges_) tick(charge);
  }
}

}  // namespace

void run_kubelet(const KubeletOptions& options, std::stop_token stop) { Kubelet(options).run(std::move(stop)); }

}  // namespace lockstep::test
