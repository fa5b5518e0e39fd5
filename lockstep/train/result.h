// The result of a run, and the files that it leaves in its folder.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/session.h>
#include <lockstep/train/trained_run.h>

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace lockstep::train {

/// The result of a session that has trained to its end. A collective. Error(mismatch) if the replicas of the model
/// differ.
RunResult make_result(Session& session, const NamedTensors& model_state, const Group& group);

/// Adds an evaluation to `json`: "eval_NAME" of each metric, eval_loss, eval_samples, and then each metric under its
/// name alone, which users of MindOCR and MMEngine expect.
void add_evaluation(nlohmann::ordered_json& json, const Evaluation& evaluation);

/// Writes the final weights and result.json. Error(io) after all files for which there is room, with what is lost and
/// what to do. For rank 0.
void leave_results(const ResolvedRun& config, const WorkDir& work_dir, const NamedTensors& model_state,
                   const std::vector<RemoteTensor>& distant, const RunResult& result, bool lacks_checkpoint);

}  // namespace lockstep::train
