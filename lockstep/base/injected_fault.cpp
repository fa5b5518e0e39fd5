// A strict parser of LOCKSTEP_FAULT (rank=1,step=3,action=kill,...), and the actions of each fault.
#include <lockstep/base/error.h>
#include <lockstep/base/injected_fault.h>
#include <lockstep/base/text.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>
#include <thread>

namespace lockstep {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<int>::max();
constexpr auto kUsualDelay = std::chrono::milliseconds(50);

[[noreturn]] void compute_for_ever() {
  for (volatile int turn = 0;;) turn = turn + 1;
}

[[noreturn]] void refuse(std::string_view text) {
  fail(ErrorKind::environment, "fault",
       "LOCKSTEP_FAULT must have the form 'rank=1,step=3,action=throw' (actions: throw, kill, stop, exit, quit, term, "
       "lose, loop, corrupt, slow), optionally with ',place=backward' (places: connect, begin, forward, backward, "
       "reduced, updated, evaluate, save; not connect with corrupt), and for slow and lose with ',ms=50'; got '{}'",
       cut_text(text));
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
  if (name == "quit") return FaultAction::quit;
  if (name == "term") return FaultAction::term;
  if (name == "lose") return FaultAction::lose;
  if (name == "loop") return FaultAction::loop;
  if (name == "corrupt") return FaultAction::corrupt;
  if (name == "slow") return FaultAction::slow;
  refuse(text);
}

FaultPlace place_named(std::string_view name, std::string_view text) {
  if (name == "connect") return FaultPlace::connect;
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

std::optional<InjectedFault> find_injected_fault(const Environment& environment) {
  const auto text = find(environment, "LOCKSTEP_FAULT");
  if (!text || text->empty()) return std::nullopt;
  auto pairs = split_pairs(*text);
  const auto take = [&](std::string_view name) -> std::optional<std::string_view> {
    const auto node = pairs.extract(name);
    return node ? std::optional(node.mapped()) : std::nullopt;
  };
  const auto take_integer = [&](std::string_view name, std::int64_t least) {
    const auto value = take(name);
    const auto number = value ? parse_integer(*value) : std::nullopt;
    if (!number || *number < least || *number > kLargest) refuse(*text);
    return *number;
  };
  InjectedFault fault;
  fault.rank = static_cast<int>(take_integer("rank", 0));
  fault.step = take_integer("step", 1);
  fault.action = action_named(take("action").value_or(""), *text);
  if (const auto place = take("place")) fault.place = place_named(*place, *text);
  const bool may_wait = fault.action == FaultAction::slow || fault.action == FaultAction::lose;
  if (fault.action == FaultAction::slow) fault.delay = kUsualDelay;
  if (may_wait && pairs.contains("ms")) fault.delay = std::chrono::milliseconds(take_integer("ms", 1));
  if (!pairs.empty()) refuse(*text);
  // Before ranks connect, there are no parameters to corrupt.
  if (fault.place == FaultPlace::connect && fault.action == FaultAction::corrupt) refuse(*text);
  return fault;
}

bool is_due(const std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place) {
  if (!fault || fault->rank != rank || fault->place != place) return false;
  return fault->step == step || (fault->action == FaultAction::slow && step > fault->step);
}

bool trigger(const std::optional<InjectedFault>& fault, int rank, std::int64_t step, FaultPlace place) {
  if (!is_due(fault, rank, step, place)) return false;
  switch (fault->action) {
    case FaultAction::raise:
      fail(ErrorKind::io, "fault", "LOCKSTEP_FAULT ordered rank {} to fail in step {}", rank, step);
    case FaultAction::lose:
      std::this_thread::sleep_for(fault->delay);
      fail(ErrorKind::peer_lost, "fault", "LOCKSTEP_FAULT ordered rank {} to lose the others in step {}", rank, step);
    case FaultAction::kill: ::raise(SIGKILL); break;
    case FaultAction::stop: ::raise(SIGSTOP); break;
    case FaultAction::exit: ::_exit(3);
    case FaultAction::quit: std::exit(0);
    case FaultAction::term: ::raise(SIGTERM); break;
    case FaultAction::loop: compute_for_ever();
    case FaultAction::slow: std::this_thread::sleep_for(fault->delay); break;
    case FaultAction::corrupt: break;
  }
  return fault->action == FaultAction::corrupt;
}

}  // namespace lockstep
