// The console output of a run: lines on stdout, and a progress bar below them that never mixes with them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::train {

enum class ProgressStyle {
  off,
  bar,    ///< one line of a terminal, redrawn in place
  lines,  ///< for files and pipes: a whole line from time to time
};

/// "auto" is a bar on a terminal and nothing elsewhere; "on" is a bar on a terminal and lines elsewhere.
ProgressStyle progress_style(std::string_view progress, bool is_terminal);

/// Whether a user sees stdout on a terminal, also through the pipe of a `lockstep run`; false for mpirun's terminals.
bool stdout_is_terminal();

/// Whether the user wants colours: the variable NO_COLOR is empty or not set (no-color.org).
bool wants_colours();

/// Not thread-safe. A console that is not `shown` discards all output. So does a console after a failed write, which is
/// reported once on stderr and in the log.
class Console {
 public:
  /// `colours`: lines that begin with "warning:" or "done:" are coloured.
  Console(bool shown, ProgressStyle style, bool colours = false);
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  ~Console();  ///< ends the bar's line

  ProgressStyle style() const { return style_; }

  /// Writes `text` as a separate line above the bar.
  void line(std::string_view text);

  /// Shows `text` as the state of progress and replaces the previous one.
  void progress(std::string_view text);

  /// Leaves the bar as it is and starts a new line.
  void end_progress();

  /// Removes the bar when its progress will not reach the end.
  void clear_progress();

 private:
  void put(std::string_view text);

  bool shown_;
  ProgressStyle style_;
  bool colours_;
  std::string bar_;  ///< as drawn now; empty when there is none
};

/// Writes one line to the log of this rank (level info) and to its console.
void tell(Console& console, std::string_view line);

}  // namespace lockstep::train
