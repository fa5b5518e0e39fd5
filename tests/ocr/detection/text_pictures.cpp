#include "ocr/detection/text_pictures.h"

#include <lockstep/data/sampler.h>

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "data/files/picture_files.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr int kWidth = 128, kHeight = 96;

/// Dark noise with one to three bright striped boxes: something to find.
std::string made_picture(const fs::path& file, std::uint64_t seed) {
  data::RandomStream stream(seed, data::RandomPurpose::synthesize, {});
  std::vector<std::uint8_t> rgb(3 * kWidth * kHeight);
  for (auto& value : rgb) value = static_cast<std::uint8_t>(stream.below(60));
  auto words = nlohmann::json::array();
  for (int row = 0; row < 3; ++row) {
    if (row > 0 && stream.below(3) == 0) continue;
    const int width = 36 + static_cast<int>(stream.below(50)), height = 16 + static_cast<int>(stream.below(8));
    const int x = 4 + static_cast<int>(stream.below(static_cast<std::uint64_t>(kWidth - width - 8))), y = 4 + 31 * row;
    for (int v = y; v < y + height; ++v) {
      for (int u = x; u < x + width; ++u) {
        for (int c = 0; c < 3; ++c)
          rgb[static_cast<std::size_t>(3 * (v * kWidth + u) + c)] = (u - x) % 6 < 4 ? 230 : 90;
      }
    }
    words.push_back(
        {{"transcription", "word"}, {"points", {{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}}}});
  }
  write_bytes(file, png_of(rgb, kWidth, kHeight));
  return file.filename().string() + "\t" + words.dump() + "\n";
}

}  // namespace

void made_pictures(const fs::path& labels, const fs::path& folder, int count, unsigned seed) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += made_picture(folder / fmt::format("img_{}.png", i), seed + static_cast<unsigned>(i));
  }
  write_bytes(labels, lines);
}

void made_pictures(const fs::path& root) {
  made_pictures(root / "train_det_gt.txt", root / "train/images", 24, 100);
  made_pictures(root / "test_det_gt.txt", root / "test/images", 7, 500);
}

std::vector<std::string> keys_for_made_pictures(const fs::path& root) {
  const std::string normalize = "normalize: {mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, 57.375]}";
  return {"data.root=" + root.string(),
          "model.channels=32",
          "data.batch_size=null",
          "data.global_batch_size=8",
          "data.eval_batch_size=2",
          "data.train_transforms=[text_random_flip, text_random_scale: {range: [0.9, 1.1]}, text_random_crop: {size: "
          "96}, text_shrink_map, text_border_map, " +
              normalize + ", hwc2chw]",
          "data.eval_transforms=[text_resize: {size: [96, 128]}, text_shrink_map, " + normalize + ", hwc2chw]",
          "optimizer.lr=0.003",
          "scheduler.name=constant",
          "scheduler.warmup_epochs=0",
          "callbacks.use=[]",
          "callbacks.metrics_every=1"};
}

}  // namespace lockstep::test
