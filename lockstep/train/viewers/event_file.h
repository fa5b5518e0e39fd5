// TensorBoard's event files: scalars, histograms and pictures over the steps of a run.
//
// A file is a sequence of records (length, its checksum, data, its checksum: the framing of TensorFlow's TFRecord),
// each one Event of tensorflow/core/util/event.proto, written by hand. TensorBoard reads the files of a folder in the
// order of their names, each to its end, and shows a folder as one run.
#pragma once

#include <lockstep/train/viewers/growing_file.h>
#include <lockstep/train/viewers/png.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// The checksum of TensorFlow's record files, the Castagnoli CRC (RFC 3720, appendix B.4: polynomial 0x1EDC6F41,
/// reflected, inverted at both ends): 0xE3069283 of "123456789".
std::uint32_t crc32c(std::string_view bytes);

/// counts[i] values lie in [limits[i - 1], limits[i]), those of the first bucket below limits[0]. `limits` ascend.
struct Histogram {
  double min = 0;
  double max = 0;
  double num = 0;  ///< of values
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits;
  std::vector<double> counts;
};

/// The limits that histogram_of() uses: 0, and 1e-12 * 1.1^k up to 1e20 with both signs, so that small and large values
/// have the same relative resolution; then the largest double. Fixed, so that the counts of several ranks can be added
/// up.
std::span<const double> histogram_limits();

/// The histogram of the finite values (NaN and infinities are left out), with the buckets from that of the smallest
/// value to that of the largest: viewers draw the first from `min`, so an empty one before it would be drawn backwards.
/// No buckets without values.
Histogram histogram_of(std::span<const float> values);
Histogram histogram_of(std::span<const double> values);

/// Writes one event file. Tags name curves, for example "train/loss"; TensorBoard groups them by what is before the
/// first "/". Steps of one tag should ascend. Times are this host's clock. Not thread-safe; one writer for a folder.
class EventFile {
 public:
  /// Makes the folder when missing, and a new file in it, events.out.tfevents.<time>.<host>.<pid>, whose name sorts
  /// after all existing ones, independent of their hosts' clocks. Marks that this file continues at `first_step`, so
  /// that viewers drop the values of older files from that step on: TensorBoard with --load_fast=false at once, by
  /// default (its data server ignores the mark) for each curve when it gets these steps again. Error(io) with the path
  /// and the reason.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  /// Tags must be UTF-8 and not empty: Error(invalid_argument), and nothing is written. All of these may write the
  /// collected events, so Error(io) like flush().
  void scalar(std::string_view tag, std::int64_t step, double value);  ///< kept as float32; may be NaN
  /// Error(invalid_argument) unless there are as many limits as counts, and limits ascend.
  void histogram(std::string_view tag, std::int64_t step, const Histogram& histogram);
  /// Error(invalid_argument) like png_of().
  void picture(std::string_view tag, std::int64_t step, const Picture& picture);

  /// Passes all events to the system, so that viewers see them and they outlive this process. Error(io) with the path
  /// and the reason, such as a full disk; the events since the last flush are then lost, and the file stays readable.
  void flush() { file_.flush(); }

  const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  GrowingFile file_;
};

/// Removes the event files in `folder`, for a run that starts from the beginning there. Error(io) with the file and the
/// reason; none for a missing folder.
void remove_event_files(const std::filesystem::path& folder);

}  // namespace lockstep::train
