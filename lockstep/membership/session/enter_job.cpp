// Entry of a process into its job, through a scheduler or a launcher's job service; a call of exit() is reported.
#include <lockstep/base/shown_text.h>
#include <lockstep/membership/member_session.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/membership/session/worker_session.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/world/host_addresses.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::membership {
namespace {

WorkerSessionOptions session_options(const ClusterSettings& settings, std::chrono::milliseconds start_timeout) {
  WorkerSessionOptions options;
  options.host = settings.host;
  options.port = settings.port;
  options.node_id = settings.node_id;
  options.server = settings.role == ClusterRole::server;
  options.servers = settings.servers;
  options.host_name = lockstep::host_name().value_or("?");
  options.machine = host_identity();
  options.secret = net::read_secret(settings);
  net::Tls tls = net::make_member_tls(settings);
  options.tls = std::move(tls.context);
  options.check_of_certificates = std::move(tls.check_of_certificates);
  options.start_timeout = start_timeout;
  options.recovers = settings.recovery;
  options.heartbeat_limit = milliseconds_of(settings.node_timeout_s);
  return options;
}

/// The address of the launcher's service in the form in which the launcher wrote it: HOST:PORT, or tls://HOST:PORT
/// where it encrypts.
struct ServicePlace {
  std::string host;
  std::uint16_t port = 0;
  bool encrypted = false;
};

ServicePlace service_at(std::string text) {
  constexpr std::string_view kEncrypted = "tls://";
  const std::string whole = text;
  const bool encrypted = text.starts_with(kEncrypted);
  if (encrypted) text.erase(0, kEncrypted.size());
  const auto place = parse_host_and_port(text);
  if (!place || place->port.value_or(0) == 0) {
    fail(ErrorKind::environment, "connect",
         "LOCKSTEP_JOB_SERVICE=\"{}\" must be HOST:PORT or tls://HOST:PORT; `lockstep run` sets it, remove it from the "
         "variables that you set",
         whole);
  }
  return {place->host, *place->port, encrypted};
}

/// The TLS context of this rank for the service; nullptr: plain.
std::shared_ptr<boost::asio::ssl::context> tls_to(const ServicePlace& service, const World& world) {
  if (service.encrypted && world.tls) return world.tls->client;
  if (service.encrypted) {
    fail(ErrorKind::environment, "connect",
         "the job service of the launcher at {}:{} encrypts, and this rank does not; set LOCKSTEP_ENCRYPT=1 (or "
         "parallel.encrypt) for all ranks and launchers of the job, or for none",
         service.host, service.port);
  }
  const auto addresses = resolve(service.host);
  const bool stays_here = !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_loopback_address);
  if (world.tls && !stays_here) {
    fail(ErrorKind::environment, "connect",
         "encryption is on (parallel.encrypt, LOCKSTEP_ENCRYPT), and the job service of the launcher at {}:{} does not "
         "encrypt; set LOCKSTEP_ENCRYPT=1 and LOCKSTEP_CLUSTER_CONFIG for `lockstep run` on each node",
         service.host, service.port);
  }
  return nullptr;
}

/// A file that exists while the session does, and stays when this process is killed: then the launcher replaces it.
class SessionFile {
 public:
  explicit SessionFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  SessionFile(const SessionFile&) = delete;
  SessionFile& operator=(const SessionFile&) = delete;
  ~SessionFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
};

/// A session and its file. The session ends before the file is removed.
struct LaunchedMember {
  LaunchedMember(std::string file_path, WorkerSessionOptions options)
      : file(std::move(file_path)), session(std::move(options)) {}
  SessionFile file;
  WorkerSession session;
};

/// Reports a call of exit() by this process while it is a member: exit() does not destroy its groups, and the other
/// members would wait for it. Has no effect in forked children.
void report_exit_of(const std::shared_ptr<WorkerSession>& session) {
  static std::mutex mutex;  // static, because a handler of exit() has no arguments
  static std::weak_ptr<WorkerSession> member;
  static pid_t process = -1;
  const std::lock_guard lock(mutex);
  member = session;
  if (std::exchange(process, ::getpid()) != -1) return;
  const auto report = [] {
    std::unique_lock reading(mutex);
    const auto here = process == ::getpid() ? member.lock() : nullptr;
    reading.unlock();
    if (here) here->end_at_exit("its process called exit() in the middle of the job");
  };
  if (std::atexit(report) != 0) log_warning("no memory is left to report a process that calls exit()");
}

// Enters the job of a launcher: the rank is known already, and the launcher's service assigns the keys of each
// generation in the launcher's store.
EnteredWorld enter_launchers_job(const World& world, const EnterOptions& options, const Environment& environment) {
  WorkerSessionOptions session;
  const auto service = service_at(world.job_service);
  session.host = service.host;
  session.port = service.port;
  session.tls = tls_to(service, world);
  session.node_id = std::to_string(world.rank);
  session.host_name = world.host.empty() ? lockstep::host_name().value_or("?") : world.host;
  session.machine = host_identity();
  session.secret = find(environment, "LOCKSTEP_JOB_SERVICE_SECRET").value_or("");
  constexpr int kMostTurns = std::numeric_limits<int>::max();
  session.turn = static_cast<int>(find_integer(environment, "LOCKSTEP_JOB_SERVICE_TURN", 0, kMostTurns).value_or(0));
  session.start_timeout = options.start_timeout;
  session.of_launcher = true;
  session.recovers = true;
  const auto member =
      std::make_shared<LaunchedMember>(find(environment, "LOCKSTEP_SESSION_FILE").value_or(""), std::move(session));
  std::shared_ptr<WorkerSession> joined(member, &member->session);
  if (joined->place().rank != world.rank || joined->place().size != world.size) {
    fail(ErrorKind::environment, "connect",
         "the launcher's job service has this process as rank {} of {}, but RANK and WORLD_SIZE give rank {} of {}; "
         "leave these as the launcher set them",
         joined->place().rank, joined->place().size, world.rank, world.size);
  }
  report_exit_of(joined);
  return {at_place(world, joined->place()), std::move(joined)};
}

}  // namespace
}  // namespace lockstep::membership

namespace lockstep {

EnteredWorld enter_job(const World& world, const EnterOptions& options, const Environment& environment) {
  const bool replaceable = options.rejoins && world.size > 1 && !world.job_service.empty();
  if (replaceable && world.rendezvous == Rendezvous::tcp)
    return membership::enter_launchers_job(world, options, environment);
  if (world.rendezvous != Rendezvous::scheduler) return {world, nullptr};
  auto settings = find_cluster(environment, options.cluster);
  if (!settings || settings->role == ClusterRole::scheduler) {
    settings = find_cluster(environment, options.cluster, ClusterRole::worker);
  }
  auto session =
      std::make_shared<membership::WorkerSession>(membership::session_options(*settings, options.start_timeout));
  membership::report_exit_of(session);
  World met = at_place(world, session->place());
  met.scheduler_secret = net::read_secret(*settings);
  if (met.host.empty()) met.host = lockstep::host_name().value_or("");
  return {std::move(met), std::move(session)};
}

World at_place(World world, const MemberPlace& place) {
  world.rank = place.rank;
  world.size = place.size;
  world.local_rank = place.local_rank;
  world.local_size = place.local_size;
  world.store_prefix = "/" + place.store_key;
  return world;
}

}  // namespace lockstep
