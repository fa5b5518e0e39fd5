// Guesses why a listed file is missing: other separators of folders, and similar names beside it.
#include <lockstep/base/shown_text.h>
#include <lockstep/base/utf8.h>
#include <lockstep/data/files/missing_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& file) {
  std::error_code failed;
  return fs::exists(file, failed);
}

bool equal_but_for_case(std::string_view one, std::string_view other) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(one, other, [&](char a, char b) { return small(a) == small(b); });
}

}  // namespace

std::string advice_on_missing(const fs::path& file) {
  constexpr int kMostFiles = 10'000;
  const auto text = file.string();
  if (text.find('\\') != std::string::npos) {
    auto slashes = text;
    std::ranges::replace(slashes, '\\', '/');
    return fmt::format("; \\ does not separate folders here{}: write / in its place",
                       is_there(slashes) ? ", and with / the file is there" : "");
  }
  if (text.ends_with(' ') || text.ends_with('\r')) return "; the name ends with a blank or a carriage return";
  const auto name = file.filename().string();
  std::error_code failed;
  int seen = 0;
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (++seen > kMostFiles) break;
    const auto other = entry->path().filename().string();
    if (equal_but_for_case(name, other)) return fmt::format("; the folder has '{}'", cut_text(other, 200));
    if (!differ_by_accents(name, other)) continue;
    return fmt::format(
        "; the folder has '{}', whose accents are written in another way (one composed character, or a "
        "letter and a mark, as macOS does): write both in one way, for example with 'convmv --nfc'",
        cut_text(other, 200));
  }
  return "";
}

}  // namespace lockstep::data
