// The compiler of steps to index maps of each axis, one resize and lookup tables, and the loop that runs them.
#include <lockstep/data/picture_plan.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::data {
namespace {

// The combined crops and flips along one axis: target pixel i is source pixel start + step * i when begin <= i < end,
// and padding otherwise.
struct AxisMap {
  int length = 0;
  int start = 0;
  int step = 1;
  int begin = 0;
  int end = 0;

  static AxisMap identity(int length) { return {.length = length, .end = length}; }

  bool is_identity(int source_length) const {
    return length == source_length && start == 0 && step == 1 && begin == 0 && end == length;
  }

  int source(int i) const { return start + step * i; }

  // This map followed by a crop to the window of `new_length` that begins at `origin` (which may be negative).
  AxisMap cropped(int origin, int new_length) const {
    AxisMap map{.length = new_length, .start = source(origin), .step = step};
    map.begin = std::clamp(begin - origin, 0, new_length);
    map.end = std::clamp(end - origin, map.begin, new_length);
    return map;
  }

  // This map followed by a flip.
  AxisMap flipped() const {
    return {.length = length, .start = source(length - 1), .step = -step, .begin = length - end, .end = length - begin};
  }
};

// Linear interpolation of two values.
float blend(float first, float first_weight, float second, float second_weight) {
  return first * first_weight + second * second_weight;
}

// For 0 <= value < 2^24.
int round_half_up(float value) {
  constexpr float kHalf = 0.5F;
  return static_cast<int>(value + kHalf);
}

// A view of planes of bytes; does not own the memory.
struct BytePlanes {
  const std::uint8_t* data;
  std::size_t height;
  std::size_t width;

  const std::uint8_t* row(int channel, int y) const {
    return data + (static_cast<std::size_t>(channel) * height + static_cast<std::size_t>(y)) * width;
  }
};

// Computes one row of the result from one row of bytes.
void emit_row(const std::uint8_t* row, const AxisMap& columns, const float* lookup, float* out) {
  const float padding = lookup[0];
  std::fill(out, out + columns.begin, padding);
  if (columns.step > 0) {
    for (int x = columns.begin; x < columns.end; ++x) out[x] = lookup[row[columns.start + x]];
  } else {
    for (int x = columns.begin; x < columns.end; ++x) out[x] = lookup[row[columns.start - x]];
  }
  std::fill(out + columns.end, out + columns.length, padding);
}

// Copies the bytes that the maps select, as planes of rows.length x columns.length.
BytePlanes copy_bytes(const BytePlanes& source, int channels, const AxisMap& rows, const AxisMap& columns,
                      std::vector<std::uint8_t>& out) {
  const auto height = static_cast<std::size_t>(rows.length);
  const auto width = static_cast<std::size_t>(columns.length);
  out.assign(static_cast<std::size_t>(channels) * height * width, 0);
  std::uint8_t* target = out.data();
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < rows.length; ++y, target += width) {
      if (y < rows.begin || y >= rows.end) continue;
      const std::uint8_t* row = source.row(c, rows.source(y));
      for (int x = columns.begin; x < columns.end; ++x) target[x] = row[columns.source(x)];
    }
  }
  return {out.data(), height, width};
}

void widen_row(const std::uint8_t* row, std::span<const ResizeTap> columns, float* out) {
  for (std::size_t x = 0; x < columns.size(); ++x) {
    const ResizeTap& tap = columns[x];
    out[x] = blend(row[tap.first], tap.first_weight, row[tap.second], tap.second_weight);
  }
}

// Written so that the compiler can use vector instructions: no aliasing, no branches.
void blend_rows(const float* __restrict first, const float* __restrict second, const ResizeTap& tap, std::size_t width,
                std::uint8_t* __restrict out) {
  const float first_weight = tap.first_weight;
  const float second_weight = tap.second_weight;
  for (std::size_t x = 0; x < width; ++x) {
    out[x] = static_cast<std::uint8_t>(round_half_up(blend(first[x], first_weight, second[x], second_weight)));
  }
}

// Computes the rows of a resized picture. Rows must be requested channel by channel and from top to bottom, so two
// buffers, for odd and even source rows, are enough.
class RowResizer {
 public:
  RowResizer(const BytePlanes& source, std::span<const ResizeTap> rows, std::span<const ResizeTap> columns,
             PicturePlan::Scratch& scratch)
      : source_(source), rows_(rows), columns_(columns), scratch_(scratch) {
    scratch_.row.resize(columns.size());
    for (auto& row : scratch_.widened) row.resize(columns.size());
  }

  const std::uint8_t* row(int channel, int y) {
    if (std::exchange(channel_, channel) != channel) held_ = {-1, -1};
    const ResizeTap& tap = rows_[static_cast<std::size_t>(y)];
    blend_rows(widened(tap.first), widened(tap.second), tap, columns_.size(), scratch_.row.data());
    return scratch_.row.data();
  }

 private:
  const float* widened(int y) {
    const auto slot = static_cast<std::size_t>(y % 2);
    float* buffer = scratch_.widened[slot].data();
    if (std::exchange(held_[slot], y) != y) widen_row(source_.row(channel_, y), columns_, buffer);
    return buffer;
  }

  BytePlanes source_;
  std::span<const ResizeTap> rows_;
  std::span<const ResizeTap> columns_;
  PicturePlan::Scratch& scratch_;
  int channel_ = -1;
  std::array<int, 2> held_{-1, -1};  // the source row in each buffer
};

// Computes the whole result; `row_of(channel, y)` returns the bytes of source row y.
template <typename RowOf>
void emit(const AxisMap& rows, const AxisMap& columns, std::span<const std::array<float, 256>> lookups, float* out,
          RowOf row_of) {
  int channel = 0;
  for (const auto& lookup : lookups) {
    for (int y = 0; y < rows.length; ++y, out += columns.length) {
      if (y < rows.begin || y >= rows.end) {
        std::fill(out, out + columns.length, lookup[0]);
      } else {
        emit_row(row_of(channel, rows.source(y)), columns, lookup.data(), out);
      }
    }
    ++channel;
  }
}

}  // namespace

std::vector<ResizeTap> resize_axis(int source, int target) {
  std::vector<ResizeTap> taps;
  taps.reserve(static_cast<std::size_t>(target));
  for (int i = 0; i < target; ++i) {
    const double centre = std::max(0.0, (i + 0.5) * source / target - 0.5);
    const int first = std::min(static_cast<int>(centre), source - 1);
    const auto weight = static_cast<float>(centre - first);
    taps.push_back({first, std::min(first + 1, source - 1), 1 - weight, weight});
  }
  return taps;
}

struct PicturePlan::Maps {
  AxisMap rows;
  AxisMap columns;
};

PicturePlan::PicturePlan(const PictureShape& input)
    : input_(input), output_(input), lookups_(static_cast<std::size_t>(input.channels)) {
  for (auto& lookup : lookups_) {
    for (std::size_t byte = 0; byte < lookup.size(); ++byte) lookup[byte] = static_cast<float>(byte);
  }
}

bool PicturePlan::add_random_crop(const RandomCrop& crop, std::int64_t position) {
  if (changes_values_) return false;
  moves_.push_back({crop, position});
  output_.height = crop.height;
  output_.width = crop.width;
  return true;
}

bool PicturePlan::add_random_flip(double prob, std::int64_t position) {
  if (changes_values_) return false;
  moves_.push_back({RandomFlip{prob}, position});
  return true;
}

bool PicturePlan::add_resize(int height, int width) {
  if (changes_values_ || resize_) return false;
  resize_ = {.rows = resize_axis(output_.height, height),
             .columns = resize_axis(output_.width, width),
             .moves_before = moves_.size()};
  output_.height = height;
  output_.width = width;
  return true;
}

template <typename Change>
bool PicturePlan::change_values(Change change) {
  changes_values_ = true;
  for (std::size_t c = 0; c < lookups_.size(); ++c) {
    for (float& value : lookups_[c]) value = change(value, c);
  }
  return true;
}

bool PicturePlan::add_float() {
  changes_values_ = true;
  return true;
}

bool PicturePlan::add_rescale(float scale, float shift) {
  return change_values([&](float value, std::size_t) { return value * scale + shift; });
}

bool PicturePlan::add_division(float divisor) {
  return change_values([&](float value, std::size_t) { return value / divisor; });
}

bool PicturePlan::add_normalize(const std::vector<float>& mean, const std::vector<float>& std) {
  const auto of_channel = [](const std::vector<float>& values, std::size_t c) {
    return values.size() == 1 ? values.front() : values.at(c);
  };
  return change_values([&](float value, std::size_t c) { return (value - of_channel(mean, c)) / of_channel(std, c); });
}

bool PicturePlan::add_truncation() {
  return change_values([](float value, std::size_t) { return std::trunc(value) + 0.0F; });
}

PicturePlan::Maps PicturePlan::draw(Maps maps, std::size_t first_move, std::size_t last_move,
                                    const SampleKey& key) const {
  for (std::size_t i = first_move; i < last_move; ++i) {
    const auto& [step, position] = moves_[i];
    RandomStream stream = step_stream(key, position);
    if (const auto* crop = std::get_if<RandomCrop>(&step)) {
      const int rows = maps.rows.length + crop->top + crop->bottom - crop->height + 1;
      const int columns = maps.columns.length + crop->left + crop->right - crop->width + 1;
      const int top = static_cast<int>(stream.below(static_cast<std::uint64_t>(rows)));
      const int left = static_cast<int>(stream.below(static_cast<std::uint64_t>(columns)));
      maps.rows = maps.rows.cropped(top - crop->top, crop->height);
      maps.columns = maps.columns.cropped(left - crop->left, crop->width);
    } else if (stream.uniform() < std::get<RandomFlip>(step).prob) {
      maps.columns = maps.columns.flipped();
    }
  }
  return maps;
}

void PicturePlan::apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out,
                        Scratch& scratch) const {
  BytePlanes source{pixels.data(), static_cast<std::size_t>(input_.height), static_cast<std::size_t>(input_.width)};
  const Maps whole{AxisMap::identity(input_.height), AxisMap::identity(input_.width)};
  if (!resize_) {
    const Maps maps = draw(whole, 0, moves_.size(), key);
    emit(maps.rows, maps.columns, lookups_, out.data(), [&](int c, int y) { return source.row(c, y); });
    return;
  }
  const Maps before = draw(whole, 0, resize_->moves_before, key);
  if (!before.rows.is_identity(input_.height) || !before.columns.is_identity(input_.width)) {
    source = copy_bytes(source, input_.channels, before.rows, before.columns, scratch.cropped);
  }
  const Maps resized{AxisMap::identity(static_cast<int>(resize_->rows.size())),
                     AxisMap::identity(static_cast<int>(resize_->columns.size()))};
  const Maps maps = draw(resized, resize_->moves_before, moves_.size(), key);
  RowResizer resizer(source, resize_->rows, resize_->columns, scratch);
  emit(maps.rows, maps.columns, lookups_, out.data(), [&](int c, int y) { return resizer.row(c, y); });
}

}  // namespace lockstep::data
