-- Q11, important stock identification: parts that are a large share of a nation's stock value.
-- The share is 0.0001 at scale factor 1 and falls with it: $fraction = 0.0001 / scale factor.
with stock as (
    select ps_partkey, ps_supplycost * ps_availqty as cost
    from partsupp
    join supplier on s_suppkey = ps_suppkey
    join nation on n_nationkey = s_nationkey
    where n_name = 'GERMANY'
)
select ps_partkey, sum(cost) as value
from stock
group by ps_partkey
having sum(cost) > (select sum(cost) * $fraction from stock)
order by value desc, ps_partkey
