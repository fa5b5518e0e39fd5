// A callback that writes the pictures of an evaluation as PNG files, each replaced atomically.
#include <lockstep/train/output/picture_writer.h>

#include <lockstep/base/atomic_file.h>
#include <lockstep/train/viewers/png.h>

#include <fmt/format.h>

#include <utility>

namespace lockstep::train {

PictureWriter::PictureWriter(std::filesystem::path folder)
    : folder_(std::move(folder)), informs_(folder_.filename().string() + "/") {}

void PictureWriter::after_evaluation(RunView& run, const Evaluation& evaluation) {
  if (evaluation.pictures.empty()) return;
  informs_.write(run, [&] {
    std::filesystem::create_directories(folder_);
    for (const auto& picture : evaluation.pictures) {
      write_file_atomically(
          folder_ / fmt::format("{}_step_{}.png", picture.name, evaluation.step),
          png_of({.width = picture.width, .height = picture.height, .channels = 3, .pixels = picture.pixels}));
    }
  });
}

}  // namespace lockstep::train
