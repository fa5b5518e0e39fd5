// Libtorch's causal attention in one kernel, available in newer versions.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <optional>

#define LOCKSTEP_FUSED_ATTENTION (TORCH_VERSION_MAJOR >= 2)

#if LOCKSTEP_FUSED_ATTENTION
#include <ATen/ops/scaled_dot_product_attention.h>
#endif

namespace lockstep::compat {

inline constexpr bool kFusedAttention = LOCKSTEP_FUSED_ATTENTION;

/// softmax(query key^T / sqrt(width), later tokens left out) value, of tensors [N, heads, T, width], without a matrix
/// [T, T] in memory. nullopt where libtorch has no such kernel.
inline std::optional<at::Tensor> fused_causal_attention([[maybe_unused]] const at::Tensor& query,
                                                        [[maybe_unused]] const at::Tensor& key,
                                                        [[maybe_unused]] const at::Tensor& value) {
#if LOCKSTEP_FUSED_ATTENTION
  return at::scaled_dot_product_attention(query, key, value, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
#else
  return std::nullopt;
#endif
}

}  // namespace lockstep::compat

#undef LOCKSTEP_FUSED_ATTENTION
