// TensorBoard's event files: scalars, histograms and pictures over the steps of a run.
//
// A file is a sequence of records (length, its checksum, data, its checksum: the framing of TensorFlow's TFRecord),
// each one Event of tensorflow/core/util/event.proto, written by hand. TensorBoard reads the files of a folder in the
// order of their names, each to its end, and shows a folder as one run.
#pragma once

#include <lockstep/train/viewers/growing_file.h>
#include <lockstep/train/viewers/histogram.h>
#include <lockstep/train/viewers/png.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep::train {

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
