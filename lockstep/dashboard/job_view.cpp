// From one look at a job to the next: rows of ranks, events of losses, returns, saves and evaluations, and curves.
#include <lockstep/base/shown_text.h>
#include <lockstep/dashboard/job_view.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace lockstep::dashboard {
namespace {

// A program without a status page is not one of Lockstep's; nothing shows when it begins to compute.
constexpr double kStartWithoutPage = 10;
constexpr std::size_t kMarks = 16;
constexpr std::size_t kLongestText = 500;

void add_event(JobView& view, std::string kind, std::optional<int> rank, std::string text) {
  if (text.size() > kLongestText) text = text.substr(0, kLongestText) + "...";
  view.events.push_back({++view.events_so_far, view.now, std::move(kind), rank, std::move(text)});
  if (view.events.size() <= kMostEvents) return;
  const auto is_routine = [](const Event& event) { return event.kind == "save" || event.kind == "evaluation"; };
  const auto routine = std::ranges::find_if(view.events, is_routine);  // a job may save each second
  view.events.erase(routine == view.events.end() ? view.events.begin() : routine);
}

/// The first letters of metrics of evaluations, in TrainingProgress.
constexpr std::string_view kOfEvaluations = "eval_";

std::string at_step(const std::optional<std::int64_t>& step) { return step ? fmt::format(" at step {}", *step) : ""; }

// ---- processes

void begin_rank(JobView& view, const RankFacts& facts) {
  auto& place = view.ranks[facts.process.rank];
  RankView rank;
  rank.row.host = facts.process.host;
  rank.row.pid = facts.process.pid;
  rank.row.generation = view.generation + 1;
  rank.life = facts.process.life;
  rank.since = view.now;
  rank.lines = std::move(place.lines);  // until there are others
  place = std::move(rank);
  begin_process(view.goodput, facts.process.rank, view.now);
}

/// Another process has the place of the one that was seen before.
void replace_rank(JobView& view, const RankFacts& facts, bool same_round) {
  const int number = facts.process.rank;
  const auto& before = view.ranks.at(number);
  if (!before.end_told && (same_round || !facts.process.end_before.empty())) {
    const auto& why = facts.process.end_before;
    add_event(view, "loss", number,
              fmt::format("rank {} (pid {}) was lost{}{}; pid {} takes its place", number, before.row.pid,
                          at_step(before.row.step), why.empty() ? "" : ": " + why, facts.process.pid));
  }
  begin_rank(view, facts);
  if (same_round) view.missing.insert(number);
}

bool take_processes(JobView& view, const JobFacts& facts) {
  const bool same_round = facts.round == view.round;
  if (!same_round) {
    view.missing.clear();
    add_event(view, "decision", std::nullopt, fmt::format("round {}: all ranks are started again", facts.round));
  }
  view.round = facts.round;
  bool changed = false;
  std::set<int> present;
  for (const auto& rank : facts.ranks) {
    const int number = rank.process.rank;
    present.insert(number);
    const auto known = view.ranks.find(number);
    if (known == view.ranks.end()) {
      changed = true;
      begin_rank(view, rank);
    } else if (known->second.row.pid != rank.process.pid || known->second.life != rank.process.life) {
      replace_rank(view, rank, same_round);
    }
  }
  const auto gone = std::erase_if(view.ranks, [&](const auto& one) { return !present.contains(one.first); });
  std::erase_if(view.goodput.ranks, [&](const auto& one) { return !present.contains(one.first); });
  return changed || gone > 0;
}

// ---- rows

/// Whether the process has computed with the other ranks.
bool has_worked(const JobView& view, const RankView& rank, const RankFacts& facts) {
  if (rank.works) return true;
  if (!facts.progress) return !view.has_status_pages && view.now - rank.since >= kStartWithoutPage;
  return facts.progress->step || facts.progress->ended || facts.progress->backwards > 0;
}

std::string activity_of(const RankFacts& facts) {
  const auto& training = facts.training;
  if (facts.silent) return fmt::format("without a report for {:.0f} s", *facts.silent);
  if (training.serves) return "parameter server";
  if (!training.doing) return "";
  switch (*training.doing) {
    case TimePart::start: return "starting";
    case TimePart::data: return "waiting for data";
    case TimePart::compute: return "computing";
    case TimePart::communicate: return "communicating";
    case TimePart::wait: return "waiting for other ranks";
    case TimePart::save: return "saving a checkpoint";
    case TimePart::lost: return "recovering";
    case TimePart::evaluate: return "evaluating";
    case TimePart::other: break;
  }
  return "";
}

// A rank that recovers is in none: the last one has failed.
std::string call_of(const RankFacts& facts) {
  if (facts.silent || facts.training.doing == TimePart::lost) return "";
  if (!facts.progress || !facts.progress->begun || facts.progress->begun == facts.progress->ended) return "";
  const auto& mark = *facts.progress->begun;
  return mark.group.empty() ? fmt::format("{} {}", mark.op, mark.number)
                            : fmt::format("{} {} of group \"{}\"", mark.op, mark.number, mark.group);
}

/// `missing`: its process takes the place of a lost one. It is starting once it has a status page.
RankState state_of(const RankView& rank, const RankFacts& facts, bool missing) {
  switch (facts.process.state) {
    case ProcessState::ended: return RankState::ended;
    case ProcessState::failed: return RankState::failed;
    case ProcessState::lost: return RankState::lost;
    case ProcessState::running: break;
  }
  if (rank.works) return RankState::running;
  return missing && !facts.progress ? RankState::lost : RankState::starting;
}

void add_mark(RankView& rank, const RankFacts& facts, double now) {
  if (!rank.row.step || (!rank.marks.empty() && rank.marks.back().step >= *rank.row.step)) return;
  const double blocked = std::chrono::duration<double>(facts.training.blocked).count();
  rank.marks.push_back({now, *rank.row.step, facts.training.samples, blocked});
  if (rank.marks.size() > kMarks) rank.marks.pop_front();
}

void take_row(JobView& view, const RankFacts& facts) {
  auto& rank = view.ranks.at(facts.process.rank);
  view.has_status_pages = view.has_status_pages || facts.progress;
  rank.works = has_worked(view, rank, facts);
  rank.row.state = state_of(rank, facts, view.missing.contains(facts.process.rank));
  rank.row.memory = facts.memory;
  const bool runs = facts.process.state == ProcessState::running;
  rank.row.call = runs ? call_of(facts) : "";
  rank.row.activity = runs ? activity_of(facts) : "";
  if (facts.progress && facts.progress->step) rank.row.step = facts.progress->step;
  rank.serves = facts.training.serves;
  if (runs) add_mark(rank, facts, view.now);
  report_times(view.goodput, facts.process.rank, facts.training, view.now);
}

bool take_lines(JobView& view, const RankFacts& facts) {
  if (!facts.process.lines) return false;
  auto& lines = view.ranks.at(facts.process.rank).lines;
  if (lines == *facts.process.lines) return false;
  lines = *facts.process.lines;
  if (lines.size() > kMostLines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostLines));
  return true;
}

// ---- events

/// Whether a rank is lost or has failed, as far as there are events.
bool has_loss(const JobView& view) {
  return std::ranges::any_of(view.ranks, [](const auto& one) {
    const auto& rank = one.second;
    return rank.end_told && fell(rank.row.state);
  });
}

void tell_of_ends(JobView& view, const JobFacts& facts) {
  const auto is_lost = [](const RankFacts& one) { return one.process.state == ProcessState::lost; };
  bool fell = has_loss(view) || std::ranges::any_of(facts.ranks, is_lost);
  std::map<std::string, std::vector<int>> ended;  // by how
  for (const auto& one : facts.ranks) {
    auto& rank = view.ranks.at(one.process.rank);
    if (one.process.state == ProcessState::running) {
      rank.end_told = false;  // it may have reconnected
      continue;
    }
    if (std::exchange(rank.end_told, true)) continue;
    view.missing.erase(one.process.rank);
    if (one.process.state == ProcessState::ended) {
      ended[one.process.end].push_back(one.process.rank);
    } else if (one.process.state == ProcessState::lost) {
      view.missing.insert(one.process.rank);
      add_event(view, "loss", one.process.rank,
                fmt::format("rank {} (pid {}) is lost{}{}", one.process.rank, one.process.pid,
                            rank.row.step ? fmt::format(" (its last report: step {})", *rank.row.step) : "",
                            one.process.end.empty() ? "" : ": " + one.process.end));
    } else {
      // Ranks that fail after the first end with the job.
      add_event(view, std::exchange(fell, true) ? "end" : "loss", one.process.rank,
                fmt::format("rank {} (pid {}) failed{}: {}", one.process.rank, one.process.pid, at_step(rank.row.step),
                            one.process.end));
    }
  }
  for (const auto& [how, ranks] : ended) {
    add_event(view, "end", std::nullopt,
              fmt::format("{} ended{}", names_of_ranks(ranks), how.empty() ? " well" : ": " + how));
  }
}

void tell_of_returns(JobView& view) {
  std::vector<int> back;
  for (const int number : view.missing) {
    const auto rank = view.ranks.find(number);
    if (rank != view.ranks.end() && rank->second.works && !rank->second.end_told) back.push_back(number);
  }
  for (const int number : back) {
    view.missing.erase(number);
    const auto& row = view.ranks.at(number).row;
    add_event(view, "return", number,
              fmt::format("rank {} (pid {}) takes part again{}", number, row.pid, at_step(row.step)));
  }
}

/// All ranks compute together again: those that still compute are in a new generation, of this number or the next.
void begin_generation(JobView& view, const std::optional<int>& generation) {
  const auto is_behind = [&](const auto& one) { return one.second.row.generation > view.generation; };
  const auto works = [](const auto& one) { return one.second.works || one.second.end_told; };
  const auto runs = [](const auto& one) { return !one.second.end_told; };
  if (std::none_of(view.ranks.begin(), view.ranks.end(), runs)) return;
  const bool new_ones = std::any_of(view.ranks.begin(), view.ranks.end(), is_behind);
  if (!new_ones || !view.missing.empty() || !std::all_of(view.ranks.begin(), view.ranks.end(), works)) return;
  view.generation = generation.value_or(view.generation + 1);
  for (auto& [number, rank] : view.ranks) {
    rank.row.generation = view.generation;
    // The pause is not the time of a step.
    if (rank.marks.size() > 1) rank.marks.erase(rank.marks.begin(), rank.marks.end() - 1);
  }
  add_event(view, "generation", std::nullopt,
            fmt::format("generation {} began: {} ranks compute together{}", view.generation, view.ranks.size(),
                        at_step(view.progress.step)));
}

void tell_of_saves(JobView& view, const JobFacts& facts) {
  std::optional<std::int64_t> saved;
  double evaluated = 0;
  std::optional<std::int64_t> evaluated_step;
  bool evaluates = false;
  for (const auto& rank : facts.ranks) {
    const auto& training = rank.training;
    if (training.saved_step) saved = std::max(saved.value_or(*training.saved_step), *training.saved_step);
    const auto& spent = training.times[static_cast<std::size_t>(TimePart::evaluate)];
    evaluated = std::max(evaluated, std::chrono::duration<double>(spent).count());
    evaluates = evaluates || training.doing == TimePart::evaluate;
    for (const auto& metric : training.metrics) {
      if (metric.name.starts_with(kOfEvaluations)) evaluated_step = std::max(evaluated_step.value_or(0), metric.step);
    }
  }
  if (saved && saved != view.saved_step) {
    // A resumed run begins with the step of an earlier one's checkpoint.
    const bool found = !view.saved_step && view.progress.step.value_or(0) <= *saved && view.generation == 0;
    if (!found) add_event(view, "save", std::nullopt, fmt::format("there is a checkpoint of step {}", *saved));
    view.saved_step = saved;
  }
  // Reports of times come after the step, so that a short evaluation between two looks is seen as well.
  const bool more = evaluated > view.evaluated.value_or(0) && view.evaluated;
  if ((evaluates || more) && !view.evaluating) {
    const auto step = evaluates || !evaluated_step ? view.progress.step : evaluated_step;
    add_event(view, "evaluation", std::nullopt, fmt::format("an evaluation{}", at_step(step)));
  }
  view.evaluating = evaluates || more;
  view.evaluated = evaluated;
}

// ---- curves

void add_point(JobView& view, Changes& changes, const std::string& name, std::int64_t step, double value) {
  auto found = view.curves.find(name);
  if (found == view.curves.end()) {
    if (view.curves.size() >= kMostCurves) return;
    found = view.curves.emplace(name, Points()).first;
  }
  auto& points = found->second;
  if (!points.empty() && points.back().first == step) return;
  points.emplace_back(step, value);
  changes.points[name].emplace_back(step, value);
  if (points.size() <= kMostPoints) return;
  Points fewer;  // the last one stays
  for (std::size_t i = 0; i < points.size(); ++i) {
    if ((points.size() - 1 - i) % 2 == 0) fewer.push_back(points[i]);
  }
  points = std::move(fewer);
}

/// Metrics have one value for all ranks; the first rank that reports one counts.
void take_curves(JobView& view, Changes& changes, const JobFacts& facts) {
  std::set<std::string> taken;
  for (const auto& rank : facts.ranks) {
    for (const auto& metric : rank.training.metrics) {
      if (metric.name.empty() || !taken.insert(metric.name).second) continue;
      add_point(view, changes, metric.name, metric.step, metric.value);
    }
  }
  if (view.progress.step && view.progress.samples_per_s && !taken.contains("samples_per_s")) {
    add_point(view, changes, "samples_per_s", *view.progress.step, *view.progress.samples_per_s);
  }
}

/// The part of the present of a rank: in a job that stands, it is lost, unless the rank does work of another kind.
TimePart present_of(const JobView& view, const RankFacts& facts) {
  if (has_loss(view) || !view.missing.empty()) return TimePart::lost;
  if (facts.process.state == ProcessState::ended) {
    // Also of a job that stood when it was ended.
    const auto before = view.goodput.ranks.at(facts.process.rank).present;
    return before == TimePart::lost ? before : TimePart::other;
  }
  const auto doing = facts.training.doing.value_or(TimePart::start);
  const bool in_step = std::ranges::find(kPartsOfSteps, doing) != kPartsOfSteps.end();
  return view.progress.stands && (in_step || facts.silent) ? TimePart::lost : doing;
}

void take_presence(JobView& view, const JobFacts& facts) {
  for (const auto& rank : facts.ranks) set_present(view.goodput, rank.process.rank, present_of(view, rank));
}

std::map<int, RankRow> rows_of(const JobView& view) {
  std::map<int, RankRow> rows;
  for (const auto& [number, rank] : view.ranks) rows.emplace(number, rank.row);
  return rows;
}

void note_changed_rows(const std::map<int, RankRow>& before, const JobView& view, Changes& changes) {
  for (const auto& [number, rank] : view.ranks) {
    const auto found = before.find(number);
    if (found == before.end() || found->second != rank.row) changes.rows.push_back(number);
  }
}

}  // namespace

NextView observe(JobView view, const JobFacts& facts) {
  Changes changes;
  changes.events_before = view.events_so_far;
  const auto before = rows_of(view);
  view.now = std::max(view.now, facts.at);
  if (!view.begun) view.round = facts.round;
  if (!facts.ranks.empty() && !std::exchange(view.begun, true)) {
    add_event(view, "start", std::nullopt,
              fmt::format("{} rank{} begin{}", facts.ranks.size(), facts.ranks.size() == 1 ? "" : "s",
                          facts.ranks.size() == 1 ? "s" : ""));
  }
  view.job.world = facts.world;
  view.job.hosts = facts.hosts;
  changes.other_ranks = take_processes(view, facts);
  for (const auto& rank : facts.ranks) {
    take_row(view, rank);
    if (view.work_dir.empty()) view.work_dir = rank.training.work_dir;
    if (take_lines(view, rank)) changes.lines.push_back(rank.process.rank);
  }
  for (const auto& text : facts.decisions) add_event(view, "decision", std::nullopt, text);
  tell_of_ends(view, facts);
  take_progress(view, facts);
  tell_of_returns(view);
  begin_generation(view, facts.generation);
  take_presence(view, facts);
  judge_speed(view);
  take_curves(view, changes, facts);
  tell_of_saves(view, facts);
  note_changed_rows(before, view, changes);
  return {std::move(view), std::move(changes)};
}

NextView end_job(JobView view, JobEnd end, double at) {
  Changes changes;
  changes.events_before = view.events_so_far;
  const auto before = rows_of(view);
  view.now = std::max(view.now, at);
  view.progress.seconds_left.reset();
  for (auto& [number, rank] : view.ranks) rank.row.memory.reset();
  view.progress.stands.reset();
  add_event(view, "end", std::nullopt,
            end.exit_code ? fmt::format("the job has ended, exit code {}: {}", *end.exit_code, end.text)
                          : fmt::format("the page has ended: {}", end.text));
  view.end = std::move(end);
  note_changed_rows(before, view, changes);
  return {std::move(view), std::move(changes)};
}

}  // namespace lockstep::dashboard
