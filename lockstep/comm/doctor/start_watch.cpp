// A thread that runs the doctor when connect() takes longer than LOCKSTEP_DOCTOR_AFTER_S (20 s by default).
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/doctor/examine_job.h>
#include <lockstep/doctor/checks.h>

#include <cmath>
#include <exception>

namespace lockstep::doctor {
namespace {

using std::chrono::milliseconds;

constexpr auto kVariable = "LOCKSTEP_DOCTOR_AFTER_S";
// For requests that a healthy job answers at once: the ranks that are present have already waited for long.
constexpr auto kWait = milliseconds(5000);

milliseconds patience_of(const Environment& environment) {
  const auto text = find(environment, kVariable).value_or("20");
  constexpr double kDay = 24 * 3600;
  const auto given = parse_number(text);
  if (!given || *given < 0 || *given > kDay) {
    fail(ErrorKind::environment, "connect", "{}=\"{}\" must be a number of seconds from 0 (never) to {}", kVariable,
         text, kDay);
  }
  return milliseconds(std::llround(*given * 1000));
}

}  // namespace

StartWatch::StartWatch(const World& world, const Environment& environment) : after_(patience_of(environment)) {
  const bool takes_part = world.rank == 0 || world.local_rank <= 0;
  if (world.size == 1 || !takes_part || after_.count() == 0) return;
  world_ = world;
  environment_ = environment;
  store_host_ = world.master_addr;
  store_port_ = world.master_port;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

void StartWatch::found_store(const std::string& host, std::uint16_t port) {
  const std::lock_guard lock(mutex_);
  store_host_ = host;
  store_port_ = port;
  found_ = true;
}

void StartWatch::watch(const std::stop_token& stop) {
  {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, stop, after_, [] { return false; });
  }
  if (stop.stop_requested()) return;
  try {
    examine_job(stop);
  } catch (const std::exception& error) {
    log_debug("the doctor ended with an error: {}", error.what());
  }
}

void StartWatch::examine_job(const std::stop_token& stop) {
  FactsRequest request;
  request.world = world_;
  request.environment = environment_;
  request.way_in = describe(world_);
  request.wait = kWait;
  request.stop = stop;
  std::string host;
  std::uint16_t port = 0;
  bool found = false;
  {
    const std::lock_guard lock(mutex_);
    host = store_host_;
    port = store_port_;
    found = found_;
  }
  const auto done = examine_job_beside_start(request, host, port, found);
  if (!done.speaks || stop.stop_requested()) return;
  log_warning("the rendezvous is not complete after {:.3g} s. What the doctor finds (docs/doctor.md):\n{}",
              static_cast<double>(after_.count()) / 1000, print_findings(done));
}

}  // namespace lockstep::doctor
