// The compiler of transforms to index maps of each axis, one resize and lookup tables, and the loop that runs them.
#include <lockstep/data/fused_plan.h>
#include <lockstep/data/step_by_step.h>

#include <algorithm>

namespace lockstep::data {
namespace {

bool is_geometric(const Transform& t) {
  return std::holds_alternative<RandomCrop>(t) || std::holds_alternative<RandomHorizontalFlip>(t) ||
         std::holds_alternative<Resize>(t);
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
             FusedScratch& scratch)
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
  FusedScratch& scratch_;
  int channel_ = -1;
  std::array<int, 2> held_{-1, -1};  // the source row in each buffer
};

// Computes the whole result; `row_of(channel, y)` returns the bytes of source row y.
template <typename RowOf>
void emit(const AxisMap& rows, const AxisMap& columns, std::span<const ByteLookup> lookups, float* out, RowOf row_of) {
  int channel = 0;
  for (const ByteLookup& lookup : lookups) {
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

std::optional<FusedPlan> FusedPlan::compile(const std::vector<Transform>& transforms, const PictureShape& input) {
  const auto first_value = std::find_if_not(transforms.begin(), transforms.end(), is_geometric);
  if (std::any_of(first_value, transforms.end(), is_geometric)) return std::nullopt;

  FusedPlan plan;
  plan.input_ = input;
  int height = input.height;
  int width = input.width;
  for (auto t = transforms.begin(); t != first_value; ++t) {
    if (const auto* crop = std::get_if<RandomCrop>(&*t)) {
      plan.moves_.emplace_back(*crop);
      height = crop->height;
      width = crop->width;
    } else if (const auto* flip = std::get_if<RandomHorizontalFlip>(&*t)) {
      plan.moves_.emplace_back(*flip);
    } else if (const auto* resize = std::get_if<Resize>(&*t)) {
      if (plan.resize_) return std::nullopt;
      plan.resize_ = ResizePlan{.rows = resize_axis(height, resize->height),
                                .columns = resize_axis(width, resize->width),
                                .moves_before = plan.moves_.size()};
      height = resize->height;
      width = resize->width;
    }
  }
  plan.lookups_.resize(static_cast<std::size_t>(input.channels));
  for (std::size_t c = 0; c < plan.lookups_.size(); ++c) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      auto value = static_cast<float>(byte);
      for (auto t = first_value; t != transforms.end(); ++t) value = apply_to_value(*t, value, c);
      plan.lookups_[c][byte] = value;
    }
  }
  return plan;
}

FusedPlan::Maps FusedPlan::draw(Maps maps, std::size_t first_move, std::size_t last_move, const SampleKey& key) const {
  for (std::size_t i = first_move; i < last_move; ++i) {
    const RandomStream stream = transform_stream(key, i);
    if (const auto* crop = std::get_if<RandomCrop>(&moves_[i])) {
      const CropOrigin origin = draw_crop(*crop, maps.rows.length, maps.columns.length, stream);
      maps.rows = maps.rows.cropped(origin.top, crop->height);
      maps.columns = maps.columns.cropped(origin.left, crop->width);
    } else if (draw_flip(std::get<RandomHorizontalFlip>(moves_[i]), stream)) {
      maps.columns = maps.columns.flipped();
    }
  }
  return maps;
}

void FusedPlan::apply(std::span<const std::uint8_t> pixels, const SampleKey& key, std::span<float> out,
                      FusedScratch& scratch) const {
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
