// The model of training: the rendezvous of a generation, steps that need all of its workers, the recovery after a loss,
// and the end.
#include <fmt/format.h>

#include "simulation/world.h"

namespace lockstep::simulation {

using namespace membership;  // the messages

void Life::enter(int index) {
  auto& one = worker(index);
  one.place = one.session.assignment;
  one.doing = Doing::meeting;
  ++one.turn;
  one.key = one.place->store_key;
  note(fmt::format("worker {} has rank {} of generation {}", index, one.place->rank, one.place->generation));
  timeline_.after(circumstances_.start_limit, [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn && worker(index).doing == Doing::meeting)
        go_on(index, "the others did not come in time");
    });
  });
  if (one.place->rank == 0) {
    const auto host = fmt::format("host{}-{}", index, one.place->generation);
    computations_[one.key].store_host = host;
    return give_worker(index, StoreOpened{{one.place->generation, host, 4000}});
  }
  look(index);
}

// The rendezvous of a generation's ranks at its store. Then they agree on the newest state that one of them has.
void Life::meet(int index) {
  auto& one = worker(index);
  const auto& place = *one.place;
  const auto& session = one.session;
  if (place.rank != 0 && !session.store) return;
  auto& computation = computations_[one.key];
  if (place.rank != 0) {
    if (session.store->generation > place.generation) return go_on(index, "a later generation has begun");
    const bool same = session.store->generation == place.generation && session.store->host == computation.store_host;
    if (!same) return violate(fmt::format("worker {} gets the store of another generation", index));
  }
  computation.generation = place.generation;
  computation.size = place.size;
  const auto [found, is_new] = computation.members.emplace(place.rank, index);
  if (!is_new) {
    if (found->second != index)
      violate(fmt::format("workers {} and {} compute as rank {}", found->second, index, place.rank));
    return;
  }
  if (static_cast<int>(computation.members.size()) < computation.size || computation.started || computation.abandoned)
    return;
  computation.started = true;
  std::int64_t most = 0;
  for (const auto& [rank, member] : computation.members) most = std::max(most, worker(member).steps);
  const auto has_newer = [&](const auto& each) { return each->process.alive && each->steps > most; };
  if (std::any_of(workers_.begin(), workers_.end(), has_newer)) {
    violate(fmt::format("generation {} begins at step {}, and a living worker has a newer state",
                        computation.generation, most));
  }
  computation.step = most;
  note(fmt::format("generation {} computes from step {}", computation.generation, most));
  for (const auto& [rank, member] : std::map(computation.members)) {
    timeline_.after(latency(), [this, member, turn = worker(member).turn, most] {
      deliver(worker(member).process, [this, member, turn, most] {
        auto& each = worker(member);
        if (each.turn != turn || each.doing != Doing::meeting) return;
        each.steps = most;
        each.hash = hash_after(most);
        each.doing = Doing::computing;
        contribute(member);
      });
    });
  }
}

void Life::contribute(int index) {
  auto& one = worker(index);
  if (one.hung || one.doing != Doing::computing) return;
  if (one.steps >= circumstances_.steps) return finish(index);
  const auto time = pace_.time(circumstances_.step / 2, circumstances_.step);
  timeline_.after(time, [this, index, turn = one.turn, step = one.steps] {
    deliver(worker(index).process, [this, index, turn, step] {
      auto& each = worker(index);
      if (each.turn != turn || each.doing != Doing::computing || each.hung || each.steps != step) return;
      auto& computation = computations_[each.key];
      if (computation.step != step)
        return violate(fmt::format("worker {} computes step {} of generation {}, which is at {}", index, step,
                                   computation.generation, computation.step));
      computation.contributed[each.place->rank] = index;
      timeline_.after(circumstances_.collective_limit, [this, index, turn, step] {
        deliver(worker(index).process, [this, index, turn, step] {
          const auto& late = worker(index);
          if (late.turn != turn || late.doing != Doing::computing || late.steps != step || late.hung) return;
          check_late(index);
          go_on(index, "a collective took too long");
        });
      });
      if (static_cast<int>(computation.contributed.size()) < computation.size) return;
      auto& newest = newest_[each.session.job];
      if (computation.generation < newest)
        violate(fmt::format("generation {} completes step {} after generation {} did", computation.generation, step,
                            newest));
      newest = std::max(newest, computation.generation);
      const auto members = std::exchange(computation.contributed, {});
      ++computation.step;
      // The last operation is the one in which a loss makes some workers finish, and others not.
      if (computation.step == circumstances_.steps && circumstances_.has(Fault::kill_worker) && trouble_.happens(300)) {
        const auto last = members.rbegin()->second;
        count_fault(Fault::kill_worker, fmt::format("worker {} is killed in the last step", last));
        timeline_.after(milliseconds(1), [this, last] { end_worker(last, -9, "killed"); });
      }
      for (const auto& [rank, member] : members) {
        timeline_.after(latency(), [this, member, generation = computation.generation, step] {
          deliver(worker(member).process, [this, member, generation, step] { complete(member, generation, step); });
        });
      }
    });
  });
}

void Life::complete(int index, std::int64_t generation, std::int64_t step) {
  auto& one = worker(index);
  if (one.doing != Doing::computing || one.hung || one.place->generation != generation || one.steps != step) return;
  one.hash = next_hash(one.hash, step);
  one.steps = step + 1;
  contribute(index);
}

// As the recovery of a run: the state stays, and the next generation is awaited.
void Life::go_on(int index, const std::string& why) {
  auto& one = worker(index);
  leave_computation(index);
  if (!circumstances_.recovery) {
    one.doing = Doing::gone;
    give_worker(index, Leave{false, why});
    return end_worker(index, 1, why);
  }
  ++one.turn;
  one.doing = Doing::waiting;
  note(fmt::format("worker {} cannot continue in generation {}: {}", index, one.place->generation, why));
  await_generation(index, one.turn, timeline_.now());
  give_worker(index, Again{one.place->generation, why});
}

// It gives up when there has been no service for too long.
void Life::await_generation(int index, std::uint64_t turn, Time heard) {
  const auto longest = circumstances_.launcher ? circumstances_.limits.heartbeat_limit : circumstances_.start_limit;
  const auto& one = worker(index);
  if (one.turn != turn || one.doing != Doing::waiting) return;
  if (one.session.connected) heard = timeline_.now();
  if (timeline_.now() - heard >= longest) return end_worker(index, 1, "a rank is lost, and there is no service");
  timeline_.after(longest / 4 + milliseconds(1), [this, index, turn, heard] {
    deliver(worker(index).process, [this, index, turn, heard] { await_generation(index, turn, heard); });
  });
}

// Other members of the computation may notice that this one has left it, or not.
void Life::leave_computation(int index) {
  auto& one = worker(index);
  const auto found = computations_.find(one.key);
  if (found == computations_.end() || !one.place) return;
  if (one.doing != Doing::computing && one.doing != Doing::meeting) return;
  if (!found->second.started) found->second.abandoned = true;
  for (const auto& [rank, member] : found->second.members) {
    if (member == index || !trouble_.happens(circumstances_.notice)) continue;
    timeline_.after(pace_.time(milliseconds(1), milliseconds(3000)),
                    [this, member, key = one.key, rank = one.place->rank] {
                      deliver(worker(member).process, [this, member, key, rank] {
                        const auto& each = worker(member);
                        const bool affected = each.key == key && each.doing == Doing::computing && !each.hung;
                        if (affected) go_on(member, fmt::format("the connection to rank {} broke", rank));
                      });
                    });
  }
}

void Life::finish(int index) {
  auto& one = worker(index);
  if (one.hash != hash_after(circumstances_.steps)) violate(fmt::format("worker {} ends with another result", index));
  // It reports that to no service that starts after its own end.
  if (!service_.alive) circumstances_.completes = false;
  one.doing = Doing::writing;
  ++one.turn;
  // It may write its results before its report, or after it.
  const auto before =
      circumstances_.slow_end ? pace_.time(milliseconds(100), circumstances_.limits.hang / 2) : milliseconds(0);
  timeline_.after(before, [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn) report_finish(index);
    });
  });
}

void Life::report_finish(int index) {
  auto& one = worker(index);
  auto writes = pace_.happens(300) ? pace_.time(milliseconds(100), milliseconds(8000)) : milliseconds(0);
  const bool cut = circumstances_.has(Fault::cut) && trouble_.happens(200);
  if (cut && one.wire) {
    reset_wire(index);
    writes = milliseconds(8000);
  }
  give_worker(index, Leave{true, ""});
  timeline_.after(writes, [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn) await_end(index);
    });
  });
}

// It waits for the service to confirm its report.
void Life::await_end(int index) {
  auto& one = worker(index);
  one.doing = Doing::leaving;
  timeline_.after(one.session.connected ? seconds(5) : seconds(2), [this, index, turn = one.turn] {
    deliver(worker(index).process, [this, index, turn] {
      if (worker(index).turn == turn) end_worker(index, 0, "it has finished");
    });
  });
  look(index);
}

}  // namespace lockstep::simulation
