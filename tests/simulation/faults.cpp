// The faults of a simulated life, at random times.
#include <fmt/format.h>

#include "simulation/world.h"

namespace lockstep::simulation {

void Life::plan_faults() {
  for (int kind = 0; kind < kFaults; ++kind) {
    const int most = circumstances_.rates[static_cast<std::size_t>(kind)];
    for (int i = 0; i < most; ++i) {
      auto& chance = kind == static_cast<int>(Fault::clock_jump) ? clocks_ : trouble_;
      const auto when = milliseconds(chance.below(static_cast<int>(circumstances_.faults_for.count()) + 1));
      timeline_.after(when, [this, kind] { strike(static_cast<Fault>(kind)); });
    }
  }
}

int Life::living_worker() {
  std::vector<int> living;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i]->process.alive && !workers_[i]->odd) living.push_back(static_cast<int>(i));
  }
  return living.empty() ? -1 : living[static_cast<std::size_t>(trouble_.below(static_cast<int>(living.size())))];
}

int Life::count_hung() const {
  return static_cast<int>(
      std::ranges::count_if(workers_, [](const auto& each) { return each->process.alive && each->hung; }));
}

void Life::count_fault(Fault fault, const std::string& what) {
  ++outcome_.faults[name(fault)];
  note("FAULT: " + what);
}

void Life::reset_wire(int index) {
  count_fault(Fault::cut, fmt::format("the connection of worker {} is reset", index));
  const auto wire = *worker(index).wire;
  close_at_service(wire, "the connection was reset", false);
  close_at_worker(wire);
}

void Life::strike_service() {
  if (!service_.alive || job_over_) return;
  count_fault(Fault::kill_service, "the service is killed");
  // Workers that have finished do not come back to report it to the next service.
  if (std::ranges::any_of(workers_, [](const auto& one) { return one->session.leave.has_value(); }))
    circumstances_.completes = false;
  kill_service("killed");
  timeline_.after(trouble_.time(milliseconds(100), milliseconds(20000)), [this] {
    if (!service_.alive && !job_over_) start_service();
  });
}

void Life::jump_clock() {
  if (!service_.alive || job_over_) return;
  const auto time = clocks_.time(milliseconds(5000), milliseconds(600000));
  count_fault(Fault::clock_jump, fmt::format("the clock of the service jumps by {} ms", time.count()));
  service_ahead_ += time;
  jumped_ = timeline_.now();
}

void Life::strike(Fault fault) {
  if (fault == Fault::clock_jump) return jump_clock();
  const int index = living_worker();
  if (index < 0 || job_over_) return;
  auto& one = worker(index);
  // A rank that is lost while it writes its results has failed, and nobody is left to start with another one.
  const bool ends_it = fault == Fault::kill_worker || fault == Fault::lost_host;
  if (ends_it && one.session.leave) circumstances_.completes = false;
  const auto counted = [&](const std::string& what) { count_fault(fault, what); };
  switch (fault) {
    case Fault::kill_worker: counted(fmt::format("worker {} is killed", index)); return end_worker(index, -9, "killed");
    case Fault::lost_host:
      counted(fmt::format("the host of worker {} is lost", index));
      one.lost_host = true;
      return end_worker(index, -9, "its host is lost");
    case Fault::kill_service:
      if (!circumstances_.saves || !service_.alive) return;  // without a saved state, its job is over
      if (trouble_.happens(500)) return strike_service();
      // Soon after the next generation has begun, which may not be saved then.
      kill_at_save_ = true;
      disk_slow_until_ = timeline_.now() + seconds(60);
      if (circumstances_.has(Fault::kill_worker)) strike(Fault::kill_worker);
      return;
    case Fault::pause_worker: {
      const auto time = trouble_.time(milliseconds(100), milliseconds(120000));
      counted(fmt::format("worker {} is stopped for {} ms", index, time.count()));
      return block(one.process, time);
    }
    case Fault::pause_service: {
      if (!service_.alive) return;
      const auto time = trouble_.time(milliseconds(100), milliseconds(60000));
      counted(fmt::format("the service is stopped for {} ms", time.count()));
      return block(service_, time);
    }
    case Fault::cut:
      if (!one.wire) return;
      return reset_wire(index);
    case Fault::part: {
      const auto until = timeline_.now() + trouble_.time(milliseconds(500), milliseconds(90000));
      const int ways = trouble_.below(3);
      counted(fmt::format("the host of worker {} is cut off {}", index,
                          ways == 0   ? "to the service"
                          : ways == 1 ? "from the service"
                                      : "both ways"));
      if (ways != 1) parted_to_service_[one.slot] = until;
      if (ways != 0) parted_to_worker_[one.slot] = until;
      return;
    }
    case Fault::hang:
      // Only another worker that waits for it shows that one hangs.
      if (one.doing != Doing::computing || one.steps + 2 >= circumstances_.steps) return;
      if (count_hung() > 0 || circumstances_.workers == 1) return;
      counted(fmt::format("the training of worker {} hangs", index));
      one.hung = true;
      return;
    case Fault::twin: counted(fmt::format("a second process in place {}", one.slot)); return start_odd(one.slot, true);
    case Fault::stranger: counted("a stranger"); return start_odd(one.slot, false);
    case Fault::slow_disk:
      counted("the disk is slow");
      disk_slow_until_ = timeline_.now() + trouble_.time(milliseconds(1000), milliseconds(30000));
      return;
    case Fault::clock_jump: return;
  }
}

}  // namespace lockstep::simulation
