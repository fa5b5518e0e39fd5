/* lockstep/comm/shm/collective.cpp and transfer.cpp, in place: buckets in shared memory, several under way at once.
 *
 * A bucket has a part on each rank and a slice for each rank. A rank fills its part, enters, reduces its slice of all
 * parts once all ranks have entered, and may use its part again once all ranks have done their share. In which order
 * a rank enters, shares and completes is left open, as the program above decides when it calls: only that collectives
 * are entered and shared in order is required. Checked: every slice is reduced exactly once from what was filled in, no
 * rank sees a part that is not complete, and no order of calls gets stuck.
 *
 * -DBROKEN=1: a rank completes without waiting for the others' shares.
 * -DBROKEN=2: a rank shares without waiting until all have entered.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define RANKS 3
#define BUCKETS 2       /* memory; collective k uses bucket k modulo BUCKETS */
#define COLLECTIVES 3

byte entered[RANKS];
byte direct[RANKS];
/* Of each slice of each part: 2 * k when filled for collective k, 2 * k + 1 when reduced. */
#define SLICE(bucket, rank, slice) data[((bucket) * RANKS + (rank)) * RANKS + (slice)]
byte data[BUCKETS * RANKS * RANKS];

#define ALL_ENTERED(k) (entered[0] >= (k) && entered[1] >= (k) && entered[2] >= (k))
#define ALL_SHARED(k) (direct[0] >= (k) && direct[1] >= (k) && direct[2] >= (k))

proctype rank(byte me) {
  byte done = 0;    /* collectives completed */
  byte i;
  byte k;

  do
  :: done == COLLECTIVES -> break
  :: entered[me] < COLLECTIVES && entered[me] < done + BUCKETS ->
    k = entered[me] + 1;
    i = 0;
    do
    :: i == RANKS -> break
    :: else -> SLICE(k % BUCKETS, me, i) = 2 * k; i++
    od;
    entered[me] = k
  :: direct[me] < entered[me] &&
#if BROKEN == 2
     true ->
#else
     ALL_ENTERED(direct[me] + 1) ->
#endif
    k = direct[me] + 1;
    i = 0;
    do
    :: i == RANKS -> break
    :: else -> assert(SLICE(k % BUCKETS, i, me) == 2 * k); i++
    od;
    i = 0;
    do
    :: i == RANKS -> break
    :: else ->
      assert(SLICE(k % BUCKETS, i, me) == 2 * k);
      SLICE(k % BUCKETS, i, me) = 2 * k + 1;
      i++
    od;
    direct[me] = k
  :: done < direct[me] &&
#if BROKEN == 1
     true ->
#else
     ALL_SHARED(done + 1) ->
#endif
    k = done + 1;
    i = 0;
    do
    :: i == RANKS -> break
    :: else -> assert(SLICE(k % BUCKETS, me, i) == 2 * k + 1); i++
    od;
    done = k
  od
}

init {
  atomic {
    run rank(0);
    run rank(1);
    run rank(2)
  }
}
