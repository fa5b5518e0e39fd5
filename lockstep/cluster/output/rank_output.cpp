// Rules from --redirects, --tee and filters to the outlets of one rank, and the prefix of its lines.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/base/this_host.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/output/rank_output.h>
#include <lockstep/cluster/rank_command.h>

#include <fmt/core.h>

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

Outlet outlet(bool shown, bool redirected, bool teed, const std::filesystem::path& file) {
  Outlet one;
  one.console = shown && (teed || !redirected);
  if (redirected || teed) one.file = file;
  return one;
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
          flag, cut_text(text), cut_text(part));
    }
    if (!choice.by_rank.emplace(static_cast<int>(*rank), *streams).second) {
      fail(ErrorKind::invalid_argument, "run", "{} '{}' names local rank {} twice", flag, cut_text(text), *rank);
    }
  }
  return choice;
}

RankOutlets outlets_of(const OutputOptions& options, int local_rank, const std::filesystem::path& folder) {
  const bool shown = options.shown.empty() || options.shown.contains(local_rank);
  const Streams redirected = options.redirects.of(local_rank);
  const Streams teed = options.tee.of(local_rank);
  const auto in_folder = [&](const char* name) { return folder.empty() ? folder : folder / name; };
  RankOutlets outlets = {outlet(shown, redirected.out, teed.out, in_folder("stdout.log")),
                         outlet(shown, redirected.err, teed.err, in_folder("stderr.log"))};
  const auto filter = [&](const std::vector<std::string>& words, const char* name, Outlet& one) {
    if (words.empty() || folder.empty()) return;
    one.words = words;
    one.filtered = folder.parent_path() / name;
  };
  filter(options.out_filters, "filtered_stdout.log", outlets.out);
  filter(options.err_filters, "filtered_stderr.log", outlets.err);
  return outlets;
}

std::string LinePrefix::of(int rank, int local_rank) const {
  if (!shown) return "";
  if (!format.empty()) {
    return replace_macros(format, {{"role_name", role},
                                   {"rank", std::to_string(rank)},
                                   {"local_rank", std::to_string(local_rank)},
                                   {"host", host_name().value_or("localhost")}});
  }
  return role == "default" ? fmt::format("[rank {}] ", rank) : fmt::format("[{} rank {}] ", role, rank);
}

}  // namespace lockstep::cluster
