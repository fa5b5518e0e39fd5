#include <lockstep/base/error.h>
#include <lockstep/base/parse.h>
#include <lockstep/cluster/comma_list.h>

#include <limits>

namespace lockstep::cluster {

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::set<int> parse_local_ranks(std::string_view flag, std::string_view text) {
  std::set<int> ranks;
  if (text.empty()) return ranks;
  for (const std::string_view part : split_at_commas(text)) {
    const auto rank = parse_integer(part);
    if (!rank || *rank < 0 || *rank > std::numeric_limits<int>::max()) {
      fail(ErrorKind::invalid_argument, "run",
           "{} '{}' must be local ranks with commas between them, as in 0,2; '{}' is "
           "none",
           flag, text, part);
    }
    ranks.insert(static_cast<int>(*rank));
  }
  return ranks;
}

}  // namespace lockstep::cluster
