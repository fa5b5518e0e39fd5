#include "ocr/recognition/word_files.h"

#include "data/files/picture_files.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <random>

namespace lockstep::test {

std::string picture_of_word(const std::string& letters, int shade) {
  constexpr int kStripe = 16, kGap = 6, kHeight = 32;
  const int width = static_cast<int>(letters.size()) * (kStripe + kGap) + kGap;
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(width) * kHeight * 3, static_cast<std::uint8_t>(100 + shade));
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const int bits = letters[i] - 'a' + 1;
    const std::array<std::uint8_t, 3> colour{static_cast<std::uint8_t>((bits & 1) != 0 ? 240 : 10),
                                             static_cast<std::uint8_t>((bits & 2) != 0 ? 240 : 10),
                                             static_cast<std::uint8_t>((bits & 4) != 0 ? 240 : 10)};
    const int left = kGap + static_cast<int>(i) * (kStripe + kGap);
    for (int y = 4; y < kHeight - 4; ++y) {
      for (int x = left; x < left + kStripe; ++x) {
        for (std::size_t c = 0; c < 3; ++c) rgb[static_cast<std::size_t>(y * width + x) * 3 + c] = colour[c];
      }
    }
  }
  return png_of(rgb, width, kHeight);
}

std::vector<std::string> made_words(int count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) {
    std::string word;
    const auto length = 1 + random() % 2;
    for (unsigned j = 0; j < length; ++j) word += static_cast<char>('a' + random() % 4);
    words.push_back(word);
  }
  return words;
}

void write_words(const std::filesystem::path& list, const std::filesystem::path& images,
                 const std::vector<std::string>& words) {
  std::string lines;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto name = fmt::format("word_{}.png", i + 1);
    write_bytes(images / name, picture_of_word(words[i], static_cast<int>(i % 20)));
    lines += fmt::format("{}\t{}\n", name, words[i]);
  }
  write_bytes(list, lines);
}

}  // namespace lockstep::test
