// The cells of a table as numbers: blanks, missing values, signs and the decimal comma.
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/samples/table_cells.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::samples {
namespace {

// In lower case, for the comparison.
constexpr std::array<std::string_view, 19> kMissingWords = {
    "?",    "na",  "n/a", "#n/a", "#na",     "nan",     "-nan",    "null",    "none",  "nil",
    "<na>", "\\n", "-",   "--",   "missing", "unknown", "1.#qnan", "-1.#ind", "1.#ind"};

bool is_word_for_missing(std::string_view cell) {
  constexpr std::size_t kLongest = 10;
  if (cell.empty() || cell.size() > kLongest) return cell.empty();
  std::string small(cell);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::ranges::find(kMissingWords, small) != kMissingWords.end();
}

std::optional<double> number_in(std::string_view cell, bool has_comma) {
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  if (!has_comma) return parse_number(cell);
  if (cell.find('.') != std::string_view::npos) return std::nullopt;
  std::string text(cell);
  if (const auto comma = text.find(','); comma != std::string::npos) text[comma] = '.';
  return parse_number(text);
}

}  // namespace

bool TableCells::is_missing_word(std::string_view cell) const {
  return cell.empty() || std::ranges::find(options_.missing, cell) != options_.missing.end();
}

bool TableCells::is_missing_number(std::string_view cell) const {
  return options_.missing.empty() ? is_word_for_missing(cell) : is_missing_word(cell);
}

std::optional<double> TableCells::number_of(std::string_view cell) const {
  return number_in(cell, options_.decimal == ",");
}

std::string TableCells::advice_on(std::string_view cell) const {
  const bool has_comma = options_.decimal == ",";
  if (number_in(cell, !has_comma)) return fmt::format("; data.decimal={} reads such numbers", has_comma ? "." : "','");
  if (cell.starts_with(' ') || cell.ends_with(' ')) return "; data.trim=true leaves out blanks around cells";
  return is_word_for_missing(cell) ? "; name it in data.missing if it stands for a missing number"
                                   : "; data.missing names words that stand for a missing number";
}

void TableCells::count(std::string text, int line) {
  auto& note = notes_[std::move(text)];
  if (note.count++ == 0) note.line = line;
}

void TableCells::note_filled(const std::string& column, std::string_view cell, int line) {
  if (cell.empty()) return;
  count(fmt::format("cells of column {} are '{}', which is read as a missing value (data.missing)", cut_text(column),
                    cut_text(cell)),
        line);
}

void TableCells::note_word(const std::string& column, const std::string& cell, int line) {
  if (!options_.missing.empty() || !is_word_for_missing(cell)) return;
  count(fmt::format("cells of column {} are '{}', which is used as an ordinary word; if it stands for a missing value, "
                    "name it in data.missing, and give its replacement in data.fill_category",
                    cut_text(column), cut_text(cell)),
        line);
}

void TableCells::note_dot(const std::string& column, const std::string& cell, int line) {
  count(fmt::format("cells of column {} are '{}', which is read as the class that training has but for the dot",
                    cut_text(column), cut_text(cell)),
        line);
}

void TableCells::note_comment(int line) { count("lines begin with | and are ignored as comments", line); }

void TableCells::log_notes() const {
  constexpr std::size_t kMost = 20;
  std::size_t shown = 0;
  for (const auto& [text, note] : notes_) {
    if (shown++ == kMost) {
      log_warning("{}: {} more remarks of this kind are left out", cut_text(file_, 200), notes_.size() - kMost);
      return;
    }
    log_warning("{}: {} {} (the first in line {})", cut_text(file_, 200), note.count, text, note.line);
  }
}

std::optional<std::size_t> class_but_for_a_dot(const std::vector<std::string>& classes, const std::string& word) {
  const auto found =
      std::ranges::lower_bound(classes, word.ends_with('.') ? word.substr(0, word.size() - 1) : word + ".");
  const bool is_it = found != classes.end() && (*found + "." == word || *found == word + ".");
  return is_it ? std::optional(static_cast<std::size_t>(found - classes.begin())) : std::nullopt;
}

}  // namespace lockstep::samples
