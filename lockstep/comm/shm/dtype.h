// Element types of the shared-memory core, which does not use libtorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::shm {

enum class DType : std::uint8_t {
  float32,
  float64,
  bfloat16,
  float16,
  int8,
  uint8,
  int16,
  int32,
  int64,
  boolean,
  complex64,  ///< from here on: moved only, not reduced
  complex128,
  other,
};

constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::bfloat16: return "bfloat16";
    case DType::float16: return "float16";
    case DType::int8: return "int8";
    case DType::uint8: return "uint8";
    case DType::int16: return "int16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::boolean: return "bool";
    case DType::complex64: return "complex64";
    case DType::complex128: return "complex128";
    case DType::other: return "other";
  }
  return "?";
}

}  // namespace lockstep::shm
