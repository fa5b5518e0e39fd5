// Connectionist temporal classification (Graves et al. 2006): the loss of words, and the decoder of a network's output.
#pragma once

#include <apps/ocr/recognition/dictionary.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::ocr {

/// The class of CTC's blank: before or after the dictionary's characters.
enum class BlankPlace { first, last };

std::int64_t blank_class(const Dictionary& dictionary, BlankPlace place);
/// The class of the character with number 0.
std::int64_t first_class(BlankPlace place);

/// Words as classes, concatenated.
struct CtcTargets {
  std::vector<std::int64_t> classes;
  std::vector<std::int64_t> lengths;  ///< of each word

  void add(const std::vector<std::int64_t>& numbers, BlankPlace place);
};

/// The columns that a word needs: its length, and one between equal neighbours. With fewer its loss is infinite.
std::int64_t columns_needed(const std::vector<std::int64_t>& numbers);

/// -log p of each word, float32 [N] for logits [T, N, C] of any floating dtype. With `zero_infinity` the loss of a word
/// that does not fit into T columns is 0, and so is its gradient.
at::Tensor ctc_losses(const at::Tensor& logits, const CtcTargets& targets, std::int64_t blank, bool zero_infinity);

struct ReadWord {
  std::string text;
  double confidence = 0;  ///< mean probability of the columns whose characters were kept; 0 without any
};

/// The most probable class of each column, equal neighbours as one, without blanks; for logits [T, N, C].
std::vector<ReadWord> read_greedily(const at::Tensor& logits, const Dictionary& dictionary, BlankPlace place);

}  // namespace lockstep::ocr
