// The drawing of synthetic pictures. Uses only +, -, *, / on doubles and integer arithmetic, so that the bytes do not
// depend on a math library (this folder is compiled with -ffp-contract=off).
#pragma once

#include <lockstep/data/pictures.h>

#include <cstdint>
#include <span>

namespace lockstep::data {

/// The class of record `index`: each block of ten records holds every class once, in a random order.
int synthetic_label(std::uint64_t seed, Split split, std::int64_t index);

/// Draws record `index` of class `label`: 3 x 32 x 32 bytes (CHW).
void draw_cifar10(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels);

/// Draws 28 x 28 bytes: a bright digit on black.
void draw_mnist(std::uint64_t seed, Split split, std::int64_t index, int label, std::span<std::uint8_t> pixels);

}  // namespace lockstep::data
