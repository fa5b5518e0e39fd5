// The labels of synthetic pictures: a random permutation of the ten classes for each block of ten records.
#include <lockstep/data/random.h>
#include <lockstep/data/synthetic_pictures.h>

#include <array>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::uint64_t kLabelKey = 0;

}  // namespace

int synthetic_label(std::uint64_t seed, Split split, std::int64_t index) {
  const auto block = static_cast<std::uint64_t>(index / 10);
  RandomStream random(seed, RandomPurpose::synthesize, {kLabelKey, static_cast<std::uint64_t>(split), block});
  std::array<int, 10> labels{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (std::size_t i = labels.size() - 1; i > 0; --i) std::swap(labels[i], labels[random.below(i + 1)]);
  return labels[static_cast<std::size_t>(index % 10)];
}

}  // namespace lockstep::data
