#include <lockstep/kernels/batch_norm_sets.h>

namespace lockstep::kernels {

extern const BatchNormTable baseline_batch_norm;
extern const BatchNormTable avx2_batch_norm;
extern const BatchNormTable avx512_batch_norm;

namespace {

const BatchNormTable& fastest() {
  static const BatchNormTable* const table = batch_norm_sets().back().table;
  return *table;
}

}  // namespace

const std::vector<InstructionSet<BatchNormTable>>& batch_norm_sets() {
  static const auto sets = usable_sets(baseline_batch_norm, avx2_batch_norm, avx512_batch_norm);
  return sets;
}

template <>
const BatchNormLoops<float>& batch_norm_loops() {
  return fastest().of_float;
}

template <>
const BatchNormLoops<double>& batch_norm_loops() {
  return fastest().of_double;
}

}  // namespace lockstep::kernels
