// The cells of a table as other programs write them: numbers with a decimal comma or a sign, and words for a value that
// is missing.
#pragma once

#include <lockstep/samples/table.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::samples {

/// Reads cells, and counts those whose value differs from their literal text. Not thread-safe.
class TableCells {
 public:
  /// `options` must outlive it; `file` is for messages.
  TableCells(const TableOptions& options, std::string file) : options_(options), file_(std::move(file)) {}

  /// Whether the cell stands for a missing number: it is empty, or one of options.missing; without those, one of the
  /// words that programs write for it (?, NA, NaN, null, ...).
  bool is_missing_number(std::string_view cell) const;
  /// The same for a category: "NA" may be a name, so only the words of options.missing count.
  bool is_missing_word(std::string_view cell) const;

  /// nullopt for text that is not a number in the form of options.decimal; a leading plus is ignored.
  std::optional<double> number_of(std::string_view cell) const;
  /// Advice for a cell that is not a number: "; data.decimal ',' reads a decimal comma".
  std::string advice_on(std::string_view cell) const;

  /// Counts cells whose value differs from their text, and logs the counts: each kind once, with the first line.
  void note_filled(const std::string& column, std::string_view cell, int line);
  void note_word(const std::string& column, const std::string& cell, int line);
  void note_dot(const std::string& column, const std::string& cell, int line);
  void note_comment(int line);
  void log_notes() const;

 private:
  struct Note {
    std::int64_t count = 0;
    int line = 0;
  };
  void count(std::string text, int line);

  const TableOptions& options_;
  std::string file_;
  std::map<std::string, Note> notes_;
};

/// The class in `classes` (sorted) that equals `word` except for a dot at its end: files of UCI have "<=50K." beside
/// "<=50K". nullopt when there is none.
std::optional<std::size_t> class_but_for_a_dot(const std::vector<std::string>& classes, const std::string& word);

}  // namespace lockstep::samples
