// Text files: rows of cells in CSV (RFC 4180), with the line on which each row begins; and other encodings than UTF-8:
// their detection, and advice on the conversion.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct CsvRow {
  int line = 0;
  std::vector<std::string> cells;
};

/// Reads rows one after the other from text in memory, which must outlive it. Lines end with LF or CR LF, a UTF-8 byte
/// order mark at the start is skipped, and so are empty lines. A cell in double quotes may hold separators, line ends
/// and, doubled, quotes. With `trims`, blanks and tabs around a cell, and around its quotes, are no part of it, and
/// lines of blanks alone are empty. Not thread-safe.
class CsvReader {
 public:
  /// `file` is for messages.
  CsvReader(std::string_view text, std::string file, char separator = ',', bool trims = false);

  /// nullopt at the end. Error(data) with file and line for a quote that is not closed, or is followed by something
  /// else than a separator or the line's end; the next call continues after that line, or at the end.
  std::optional<CsvRow> next();

 private:
  std::string quoted_cell(int line);
  std::string plain_cell();
  void pass_blanks();
  bool at_line_end() const;
  void pass_line_end();
  [[noreturn]] void refuse_row(int line, std::string_view why);

  std::string_view rest_;
  std::string file_;
  char separator_;
  bool trims_;
  int line_ = 1;
};

/// The same as for_each_line() of items.h, for the lines of a text.
void for_each_line(std::string_view text, const std::function<void(std::string_view line, int number)>& line);

/// Error(data) for text in UTF-16 or UTF-32, in which every other byte is 0 or which begins with a byte order mark. The
/// message names the encoding and a command that converts the file.
void refuse_wide_text(std::string_view text, const std::string& file);

/// "line 3 is not UTF-8 (byte 0xc4); convert the file: iconv -f ..." for text that is not UTF-8. Encodings of one byte
/// per letter (Latin-1) and of several (GBK, Shift JIS) look alike, so the message names all of them.
std::optional<std::string> why_not_utf8(std::string_view text, const std::string& file);

/// Calls refuse_wide_text(), and logs a line for text that is not UTF-8, which is read unchanged.
void check_encoding(std::string_view text, const std::string& file);

}  // namespace lockstep::data
