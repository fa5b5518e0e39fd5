// Cuts a stream of bytes into lines, whatever the sizes in which it arrives.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::cluster {

class LineSplitter {
 public:
  /// Receives one line with its end: "\n", "\r\n", or "\r" alone (a progress bar that redraws itself). A line longer
  /// than `longest` comes in pieces, and of those, as of a stream's unfinished last line, only the last may have an
  /// end.
  using Take = std::function<void(std::string_view)>;

  explicit LineSplitter(std::size_t longest = 64 << 10) : longest_(longest) {}

  void feed(std::string_view bytes, const Take& take);

  /// The stream has ended: hands out what is left.
  void finish(const Take& take);

 private:
  std::size_t longest_;
  std::string pending_;
};

}  // namespace lockstep::cluster
