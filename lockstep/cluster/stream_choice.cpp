#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cluster/comma_list.h>
#include <lockstep/cluster/stream_choice.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace lockstep::cluster {
namespace {

std::optional<Streams> parse_streams(std::string_view text) {
  if (text == "0") return Streams{};
  if (text == "1") return Streams{.out = true, .err = false};
  if (text == "2") return Streams{.out = false, .err = true};
  if (text == "3") return Streams{.out = true, .err = true};
  return std::nullopt;
}

}  // namespace

Streams StreamChoice::of(int local_rank) const {
  const auto own = by_rank.find(local_rank);
  return own != by_rank.end() ? own->second : rest;
}

bool StreamChoice::any() const {
  const auto chosen = [](const Streams& streams) { return streams.out || streams.err; };
  return chosen(rest) ||
         std::any_of(by_rank.begin(), by_rank.end(), [&](const auto& own) { return chosen(own.second); });
}

StreamChoice parse_stream_choice(std::string_view flag, std::string_view text) {
  if (const auto all = parse_streams(text)) return {*all, {}};
  StreamChoice choice;
  for (const std::string_view part : split_at_commas(text)) {
    const auto colon = part.find(':');
    const auto rank = parse_integer(part.substr(0, colon));
    const auto streams = colon == std::string_view::npos ? std::nullopt : parse_streams(part.substr(colon + 1));
    if (!rank || *rank < 0 || *rank > std::numeric_limits<int>::max() || !streams) {
      fail(
          ErrorKind::invalid_argument, "run",
          "{} '{}' must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such a value for each of some local ranks, "
          "as in 0:3,1:1; '{}' is neither",
          flag, text, part);
    }
    if (!choice.by_rank.emplace(static_cast<int>(*rank), *streams).second) {
      fail(ErrorKind::invalid_argument, "run", "{} '{}' names local rank {} twice", flag, text, *rank);
    }
  }
  return choice;
}

}  // namespace lockstep::cluster
