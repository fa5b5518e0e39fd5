#include <lockstep/data/fused_plan.h>
#include <lockstep/data/step_by_step.h>

#include <algorithm>

namespace lockstep::data {
namespace {

bool is_geometric(const Transform& t) {
  return std::holds_alternative<RandomCrop>(t) || std::holds_alternative<RandomHorizontalFlip>(t) ||
         std::holds_alternative<Resize>(t);
}

// One row of the result from one row of bytes.
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

// The bytes that maps select, planes of rows.length x columns.length.
void copy_bytes(std::span<const std::uint8_t> pixels, const PictureShape& shape, const AxisMap& rows,
                const AxisMap& columns, std::vector<std::uint8_t>& out) {
  const auto width = static_cast<std::size_t>(columns.length);
  out.assign(static_cast<std::size_t>(shape.channels) * static_cast<std::size_t>(rows.length) * width, 0);
  for (int c = 0; c < shape.channels; ++c) {
    for (int y = rows.begin; y < rows.end; ++y) {
      const std::uint8_t* source = pixels.data() + (c * shape.height + rows.source(y)) * shape.width;
      std::uint8_t* target = out.data() + static_cast<std::size_t>(c * rows.length + y) * width;
      for (int x = columns.begin; x < columns.end; ++x) target[x] = source[columns.source(x)];
    }
  }
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
    out[x] =
        static_cast<std::uint8_t>(static_cast<int>(blend(first[x], first_weight, second[x], second_weight) + 0.5F));
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
                                .moves_before = plan.moves_.size(),
                                .source_height = height,
                                .source_width = width};
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
  const Maps whole{AxisMap::identity(input_.height), AxisMap::identity(input_.width)};
  if (!resize_) {
    gather(pixels, draw(whole, 0, moves_.size(), key), out);
    return;
  }
  const Maps before = draw(whole, 0, resize_->moves_before, key);
  if (!before.rows.is_identity(input_.height) || !before.columns.is_identity(input_.width)) {
    copy_bytes(pixels, input_, before.rows, before.columns, scratch.cropped);
    pixels = scratch.cropped;
  }
  const Maps resized{AxisMap::identity(static_cast<int>(resize_->rows.size())),
                     AxisMap::identity(static_cast<int>(resize_->columns.size()))};
  resize(pixels, draw(resized, resize_->moves_before, moves_.size(), key), out, scratch);
}

void FusedPlan::gather(std::span<const std::uint8_t> pixels, const Maps& maps, std::span<float> out) const {
  float* target = out.data();
  for (int c = 0; c < input_.channels; ++c) {
    const Lookup& lookup = lookups_[static_cast<std::size_t>(c)];
    const std::uint8_t* plane = pixels.data() + c * input_.height * input_.width;
    for (int y = 0; y < maps.rows.length; ++y, target += maps.columns.length) {
      if (y < maps.rows.begin || y >= maps.rows.end) {
        std::fill(target, target + maps.columns.length, lookup[0]);
      } else {
        emit_row(plane + maps.rows.source(y) * input_.width, maps.columns, lookup.data(), target);
      }
    }
  }
}

void FusedPlan::resize(std::span<const std::uint8_t> pixels, const Maps& maps, std::span<float> out,
                       FusedScratch& scratch) const {
  const std::size_t width = resize_->columns.size();
  scratch.row.resize(width);
  for (auto& row : scratch.widened) row.resize(width);
  float* target = out.data();
  for (int c = 0; c < input_.channels; ++c) {
    const Lookup& lookup = lookups_[static_cast<std::size_t>(c)];
    const std::uint8_t* plane = pixels.data() + c * resize_->source_height * resize_->source_width;
    // Rows are asked for from top to bottom, so two buffers, for odd and even rows, hold all that is still needed.
    std::array<int, 2> held{-1, -1};
    const auto widened = [&](int row) {
      const auto slot = static_cast<std::size_t>(row % 2);
      float* buffer = scratch.widened[slot].data();
      if (std::exchange(held[slot], row) != row)
        widen_row(plane + row * resize_->source_width, resize_->columns, buffer);
      return buffer;
    };
    for (int y = 0; y < maps.rows.length; ++y, target += maps.columns.length) {
      if (y < maps.rows.begin || y >= maps.rows.end) {
        std::fill(target, target + maps.columns.length, lookup[0]);
        continue;
      }
      const ResizeTap& tap = resize_->rows[static_cast<std::size_t>(maps.rows.source(y))];
      blend_rows(widened(tap.first), widened(tap.second), tap, width, scratch.row.data());
      emit_row(scratch.row.data(), maps.columns, lookup.data(), target);
    }
  }
}

}  // namespace lockstep::data
