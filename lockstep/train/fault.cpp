#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/train/fault.h>

#include <unistd.h>

#include <csignal>
#include <limits>
#include <map>
#include <string_view>

namespace lockstep::train {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  fail(ErrorKind::environment, "fault",
       "LOCKSTEP_FAULT must read like 'rank=1,step=3,action=throw' (actions: throw, kill, stop, exit, term, lose), "
       "perhaps with ',place=backward' (places: begin, forward, backward, reduced, updated, evaluate, save); got '{}'",
       text);
}

std::map<std::string_view, std::string_view> split_pairs(std::string_view text) {
  std::map<std::string_view, std::string_view> pairs;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) refuse(text);
    if (!pairs.emplace(item.substr(0, equals), item.substr(equals + 1)).second) refuse(text);
    if (comma == std::string_view::npos) return pairs;
    rest.remove_prefix(comma + 1);
  }
}

FaultAction action_named(std::string_view name, std::string_view text) {
  if (name == "throw") return FaultAction::raise;
  if (name == "kill") return FaultAction::kill;
  if (name == "stop") return FaultAction::stop;
  if (name == "exit") return FaultAction::exit;
  if (name == "term") return FaultAction::term;
  if (name == "lose") return FaultAction::lose;
  refuse(text);
}

FaultPlace place_named(std::string_view name, std::string_view text) {
  if (name == "begin") return FaultPlace::begin;
  if (name == "forward") return FaultPlace::forward;
  if (name == "backward") return FaultPlace::backward;
  if (name == "reduced") return FaultPlace::reduced;
  if (name == "updated") return FaultPlace::updated;
  if (name == "evaluate") return FaultPlace::evaluate;
  if (name == "save") return FaultPlace::save;
  refuse(text);
}

}  // namespace

std::optional<Fault> find_fault(const Environment& environment) {
  const auto text = find(environment, "LOCKSTEP_FAULT");
  if (!text || text->empty()) return std::nullopt;
  const auto pairs = split_pairs(*text);
  const bool placed = pairs.contains("place");
  if (pairs.size() != (placed ? 4 : 3) || !pairs.contains("rank") || !pairs.contains("step") ||
      !pairs.contains("action"))
    refuse(*text);
  const auto rank = parse_integer(pairs.at("rank"));
  const auto step = parse_integer(pairs.at("step"));
  if (!rank || *rank < 0 || *rank > std::numeric_limits<int>::max() || !step || *step < 1) refuse(*text);
  return Fault{static_cast<int>(*rank), *step, action_named(pairs.at("action"), *text),
               placed ? place_named(pairs.at("place"), *text) : FaultPlace::begin};
}

void trigger(const std::optional<Fault>& fault, int rank, std::int64_t step, FaultPlace place) {
  if (!fault || fault->rank != rank || fault->step != step || fault->place != place) return;
  switch (fault->action) {
    case FaultAction::raise:
      fail(ErrorKind::io, "fault", "LOCKSTEP_FAULT ordered rank {} to fail in step {}", rank, step);
    case FaultAction::lose:
      fail(ErrorKind::peer_lost, "fault", "LOCKSTEP_FAULT ordered rank {} to lose the others in step {}", rank, step);
    case FaultAction::kill: ::raise(SIGKILL); break;
    case FaultAction::stop: ::raise(SIGSTOP); break;
    case FaultAction::exit: ::_exit(3);
    case FaultAction::term: ::raise(SIGTERM); break;
  }
}

}  // namespace lockstep::train
