// The measurement of links: bandwidth, latency and overlap of collectives.
#pragma once

#include <lockstep/plan/measure/measure.h>

namespace lockstep::plan {

/// Measures a group whose ranks have equal links: the bandwidth and latency with which a ring would take the measured
/// times of an all_reduce of 32 MB and one of 1 KB. A collective.
Link measure_link(const Group& group, const MeasureOptions& options);

/// Measures the link between the hosts of `group`: the time of its all_reduce beyond that within a host. `here` are the
/// ranks on this host.
Link measure_link_between_hosts(const Group& group, const Group& here, const Link& inside,
                                const MeasureOptions& options);

/// The fraction of an all_reduce that does not slow down computation at the same time, from 0 to 1.
double measure_overlap(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
