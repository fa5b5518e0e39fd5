// A launcher: its session is the real state machine; around it is what agent.cpp does with a view of the job.
#include <lockstep/cluster/elastic/rank_ends.h>

#include <fmt/format.h>

#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {

using namespace cluster;           // the ends of ranks
using namespace cluster::elastic;  // the messages, and the state of the job

namespace {

constexpr milliseconds kFarewell{3000};

}  // namespace

NodeFacts Life::facts(const NodeDescription& node, const std::string& secret) {
  return {"job", node, circumstances_.policy, names_.token(), names_.token(), circumstances_.secret ? secret : ""};
}

int Life::start_launcher(bool host) {
  const int index = static_cast<int>(launchers_.size());
  auto& one = *launchers_.emplace_back(std::make_unique<Launcher>());
  one.held_here = host;
  one.session.facts = facts({fmt::format("host{}", index), 1, host, std::nullopt}, "open sesame");
  one.disconnected = timeline_.now();
  note(fmt::format("launcher {} starts", index));
  if (host) begin_service(index, 0);
  find(index);
  beat(index);
  return index;
}

void Life::end_launcher(int index, int code, const std::string& why) {
  auto& one = launcher(index);
  if (!one.process.alive) return;
  note(fmt::format("launcher {} ends with {}: {}", index, code, why));
  one.process.alive = false;
  one.process.held.clear();
  one.ranks = Ranks::none;
  ++one.life;
  if (one.service_here != 0) end_service(one.service_here, "with its launcher");
  if (one.wire) close_at_launcher(*one.wire);
}

void Life::give_session(int index, const NodeSessionInput& input) {
  auto& one = launcher(index);
  const auto messages = step(one.session, input);
  if (!one.wire) return;
  for (const auto& message : messages) to_service(*one.wire, message);
}

void Life::give_launcher(int index, const NodeSessionInput& input) {
  give_session(index, input);
  look(index);
}

void Life::beat(int index) {
  timeline_.after(circumstances_.heartbeat, [this, index] {
    auto& one = launcher(index);
    if (!one.process.alive) return;
    deliver(one.process, [this, index] { give_launcher(index, NodeBeat{}); });
    beat(index);
  });
}

// What the loop of the agent finds in the view of its job.
void Life::look(int index) {
  auto& one = launcher(index);
  if (!one.process.alive || one.leaving || one.odd) return;
  if (one.session.over) {
    if (one.ranks == Ranks::running) return stop_ranks(index);
    if (one.ranks == Ranks::stopping) return;
    end_launcher(index, 1, one.session.over->reason);
    if (one.session.over->again && timeline_.now() < last_fault_ + seconds(60)) start_launcher(false);
    return;
  }
  if (!one.session.view) return;
  const auto view = *one.session.view;
  const auto& job = view.job;
  const bool over = job.phase != Phase::running || job.round != one.round || view.replaced;
  if (one.ranks == Ranks::running && over) return stop_ranks(index);
  if (one.ranks != Ranks::none) return;
  if (job.phase == Phase::closed) return farewell(index, job.exit_code);
  if (view.refused) return farewell(index, 2);
  const auto& said = one.session.report;
  if (job.phase == Phase::gathering && (said.stage == Stage::ended || said.round < job.round))
    return give_launcher(index, NodeReport{.round = job.round});
  if (job.phase != Phase::running || !view.place) return;
  const bool is_news =
      job.round > one.looked_at || (job.round > one.took_part_in && job.replaced.size() > one.replaced);
  if (is_news) {
    one.looked_at = job.round;
    one.replaced = job.replaced.size();
    one.took_part_in = job.round;
    one.meets = false;
  }
  if (one.took_part_in != job.round || one.round == job.round) return;
  if (!view.meeting) {
    if (view.place->node != 0 || one.meets) return;
    one.meets = true;
    const auto place = names_.token();
    meetings_[place] = job.round;
    return give_launcher(index, RanksMeet{job.round, Place{place, 1}});
  }
  start_ranks(index);
}

void Life::start_ranks(int index) {
  auto& one = launcher(index);
  const auto& job = one.session.view->job;
  const auto& meeting = one.session.view->meeting->host;
  if (meetings_[meeting] != job.round)
    violate(fmt::format("ranks of round {} meet where those of round {} did", job.round, meetings_[meeting]));
  one.ranks = Ranks::running;
  one.round = job.round;
  ++one.life;
  note(fmt::format("launcher {} starts its ranks of round {} as node {}", index, job.round,
                   one.session.view->place->node));
  give_launcher(index, NodeReport{.stage = Stage::running, .round = job.round});
}

void Life::stop_ranks(int index) {
  auto& one = launcher(index);
  one.ranks = Ranks::stopping;
  timeline_.after(network_.time(milliseconds(0), kGrace), [this, index, life = one.life] {
    deliver(launcher(index).process, [this, index, life] {
      if (launcher(index).life == life) ranks_ended(index, {0, 15}, 15);
    });
  });
}

void Life::ranks_ended(int index, ExitStatus status, int asked) {
  auto& one = launcher(index);
  one.ranks = Ranks::none;
  ++one.life;
  RankEnd end;
  end.rank = one.session.view->place ? one.session.view->place->first_rank : 0;
  end.status = status;
  end.asked = asked;
  const NodeEnds ends{one.session.facts.node.host, "", {end}, milliseconds(0)};
  if (!status.ok()) give_session(index, RanksEnded{one.round, ends});
  give_session(index, report_of(ends, one.round, asked != 0));
  look(index);
}

// A lost rank is replaced in place, or its end is a failure.
void Life::take_answer(int index) {
  auto& one = launcher(index);
  if (one.wished == 0 || one.session.answer.number < one.wished) return;
  one.wished = 0;
  if (one.session.answer.granted) {
    if (++grants_ > circumstances_.policy.max_replacements)
      violate(fmt::format("{} replacements are granted", grants_));
    return;
  }
  if (one.ranks != Ranks::running) return;
  ++fails_;
  ranks_ended(index, {0, 9}, 0);
}

void Life::farewell(int index, int code) {
  auto& one = launcher(index);
  one.leaving = true;
  give_launcher(index, NodeReport{.stage = Stage::left, .round = one.session.report.round, .note = "it ends"});
  await_goodbye(index, code, timeline_.now() + kFarewell);
}

// It ends when its report that it leaves was received; the launcher with the service stays while others use that.
void Life::await_goodbye(int index, int code, Time until) {
  timeline_.after(milliseconds(50), [this, index, code, until] {
    deliver(launcher(index).process, [this, index, code, until] {
      const auto& one = launcher(index);
      const bool gone = one.session.said_goodbye || timeline_.now() >= until;
      const auto service = services_.find(one.service_here);
      const bool used =
          service != services_.end() && service->second.serves && count_users(service->second.state, clock_of(one)) > 0;
      if (gone && !used) return end_launcher(index, code, "the job is over for it");
      await_goodbye(index, code, until);
    });
  });
}

}  // namespace lockstep::simulation::launchers
