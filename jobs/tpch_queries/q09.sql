-- Q9, product type profit measure: profit on parts of one colour, by the supplier's nation and year.
with profit as (
    select
        n_name as nation,
        extract(year from o_orderdate) as o_year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
    from part
    join lineitem on l_partkey = p_partkey
    join partsupp on ps_partkey = l_partkey and ps_suppkey = l_suppkey
    join supplier on s_suppkey = l_suppkey
    join orders on o_orderkey = l_orderkey
    join nation on n_nationkey = s_nationkey
    where p_name like '%green%'
)
select nation, o_year, sum(amount) as sum_profit
from profit
group by nation, o_year
order by nation, o_year desc
