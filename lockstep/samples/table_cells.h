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

/// Reads cells, and counts what it read in another way than its letters say. Not thread-safe.
class TableCells {
 public:
  /// `options` must outlive it; `file` is for messages.
  TableCells(const TableOptions& options, std::string file) : options_(options), file_(std::move(file)) {}

  /// Whether the cell stands for a missing number: it is empty, or one of options.missing; without those, one of the
  /// words that programs write for it (?, NA, NaN, null, ...).
  bool is_missing_number(std::string_view cell) const;
  /// The same for a word: "NA" may be a name, so only the words of options.missing count.
  bool is_missing_word(std::string_view cell) const;

  /// nullopt for what is no number, as options.decimal writes one; a plus in front is passed over.
  std::optional<double> number_of(std::string_view cell) const;
  /// What may help with a cell that is none: "; data.decimal ',' reads a decimal comma".
  std::string advice_on(std::string_view cell) const;

  /// Counts cells that are not what they look like, and logs the counts: each kind once, with the first line.
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

/// The class of `classes`, which are sorted, that `word` is but for a dot at its end: files of UCI have "<=50K." beside
/// "<=50K". nullopt when there is none.
std::optional<std::size_t> class_but_for_a_dot(const std::vector<std::string>& classes, const std::string& word);

}  // namespace lockstep::samples
