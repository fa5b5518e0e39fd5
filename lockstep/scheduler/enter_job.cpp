#include <lockstep/world/member_session.h>

#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/base/this_host.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/scheduler/security.h>
#include <lockstep/scheduler/worker_session.h>

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace lockstep::scheduler {
namespace {

WorkerSessionOptions session_options(const ClusterSettings& settings, std::chrono::milliseconds start_timeout) {
  WorkerSessionOptions options;
  options.host = settings.host;
  options.port = settings.port;
  options.node_id = settings.node_id;
  options.host_name = lockstep::host_name().value_or("?");
  options.machine = host_identity();
  options.secret = read_secret(settings);
  Tls tls = make_client_tls(settings);
  options.tls = std::move(tls.context);
  options.check_of_certificates = std::move(tls.check_of_certificates);
  options.start_timeout = start_timeout;
  options.recovers = settings.recovery;
  options.silence = milliseconds_of(settings.node_timeout_s);
  return options;
}

/// HOST:PORT, as the launcher wrote it.
std::pair<std::string, std::uint16_t> service_at(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_integer(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) {
    fail(ErrorKind::environment, "connect",
         "LOCKSTEP_JOB_SERVICE=\"{}\" must be HOST:PORT; `lockstep run` sets it, remove it from what you set yourself",
         text);
  }
  return {text.substr(0, colon), static_cast<std::uint16_t>(*port)};
}

/// A file that says, also after this process was killed, that it was in a session: its launcher then replaces it.
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

/// The session ends before its file goes.
struct LaunchedMember {
  LaunchedMember(std::string file_path, WorkerSessionOptions options)
      : file(std::move(file_path)), session(std::move(options)) {}
  SessionFile file;
  WorkerSession session;
};

// The launcher has given the rank already; its service gives the keys of each generation in the launcher's store.
EnteredWorld enter_launchers_job(const World& world, const EnterOptions& options, const Environment& environment) {
  WorkerSessionOptions session;
  std::tie(session.host, session.port) = service_at(world.job_service);
  session.node_id = std::to_string(world.rank);
  session.host_name = world.host.empty() ? lockstep::host_name().value_or("?") : world.host;
  session.machine = host_identity();
  session.secret = find(environment, "LOCKSTEP_JOB_SERVICE_SECRET").value_or("");
  session.start_timeout = options.start_timeout;
  session.of_launcher = true;
  session.recovers = true;
  const auto member =
      std::make_shared<LaunchedMember>(find(environment, "LOCKSTEP_SESSION_FILE").value_or(""), std::move(session));
  std::shared_ptr<WorkerSession> joined(member, &member->session);
  if (joined->place().rank != world.rank || joined->place().size != world.size) {
    fail(ErrorKind::environment, "connect",
         "the launcher's job service knows this process as rank {} of {}, but RANK and WORLD_SIZE say rank {} of {}; "
         "leave these as the launcher set them",
         joined->place().rank, joined->place().size, world.rank, world.size);
  }
  return {at_place(world, joined->place()), std::move(joined)};
}

}  // namespace
}  // namespace lockstep::scheduler

namespace lockstep {

EnteredWorld enter_job(const World& world, const EnterOptions& options, const Environment& environment) {
  const bool replaceable = options.rejoins && world.size > 1 && !world.job_service.empty();
  if (replaceable && world.meeting == Meeting::tcp) return scheduler::enter_launchers_job(world, options, environment);
  if (world.meeting != Meeting::scheduler) return {world, nullptr};
  const auto settings = find_cluster(environment, options.cluster, ClusterRole::worker);
  auto session =
      std::make_shared<scheduler::WorkerSession>(scheduler::session_options(*settings, options.start_timeout));
  World met = at_place(world, session->place());
  met.scheduler_secret = scheduler::read_secret(*settings);
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
