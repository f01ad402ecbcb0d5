-- Q7, volume shipping: revenue between two nations, both ways, by year.
with shipping as (
    select
        supplier_nation.n_name as supp_nation,
        customer_nation.n_name as cust_nation,
        extract(year from l_shipdate) as l_year,
        l_extendedprice * (1 - l_discount) as volume
    from supplier
    join lineitem on l_suppkey = s_suppkey
    join orders on o_orderkey = l_orderkey
    join customer on c_custkey = o_custkey
    join nation as supplier_nation on supplier_nation.n_nationkey = s_nationkey
    join nation as customer_nation on customer_nation.n_nationkey = c_nationkey
    where l_shipdate between date '1995-01-01' and date '1996-12-31'
      and (
        (supplier_nation.n_name = 'FRANCE' and customer_nation.n_name = 'GERMANY')
        or (supplier_nation.n_name = 'GERMANY' and customer_nation.n_name = 'FRANCE')
      )
)
select supp_nation, cust_nation, l_year, sum(volume) as revenue
from shipping
group by supp_nation, cust_nation, l_year
order by supp_nation, cust_nation, l_year
